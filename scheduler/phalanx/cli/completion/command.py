"""`phalanx completion SHELL`: print a completion script."""

from typing import Literal

from phalanx.cli.completion.scripts import SCRIPTS
from phalanx.cli.exits import Exit


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell. It completes commands, options and the names in the cluster.

    `source <(phalanx completion bash)` in ~/.bashrc, the same with zsh in ~/.zshrc, or
    `phalanx completion fish | source` in the configuration of fish. For `kubectl phalanx`, kubectl asks the
    program kubectl_complete-phalanx, which is installed with this one.

    Parameters
    ----------
    shell
        The shell.
    """
    print(SCRIPTS[shell], end="")
    return Exit.OK
