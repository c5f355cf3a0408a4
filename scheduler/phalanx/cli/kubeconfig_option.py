"""The option --kubeconfig of the commands."""

from pathlib import Path

from phalanx.cli.exits import BadInput


def existing_kubeconfig(path: Path | None) -> str | None:
    """The file that the option names; None without the option. Raises BadInput if there is no such file."""
    if path is not None and not path.is_file():
        raise BadInput(f"--kubeconfig: expected a readable file, found none at {path}")
    return str(path) if path else None
