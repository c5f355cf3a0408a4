"""Read the scheduler's configuration file."""

from pathlib import Path

from phalanx.cli.config_file.check import check
from phalanx.cli.exits import BadInput
from phalanx.framework.config import ConfigError, SchedulerConfig
from phalanx.limits import BAD_INPUT_LINES_MAX


def read_config(path: Path | None) -> SchedulerConfig:
    """Read the configuration; all defaults without a file. Raises BadInput, also for an unknown plugin."""
    checked = check(read_text(path) if path else "")
    if checked.config is None:
        where = path or "the default configuration"
        raise BadInput(*(f"{where}: {error}" for error in checked.errors))
    return checked.config


def parse_checked(content: bytes) -> SchedulerConfig:
    """Check all of the content of a file. Raises ConfigError with all errors."""
    try:
        checked = check(content.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(str(error)) from error
    if checked.config is None:
        raise ConfigError("; ".join(checked.errors[:BAD_INPUT_LINES_MAX]))
    return checked.config


def read_text(path: Path) -> str:
    """Read a file as UTF-8. Raises BadInput."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, found: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: {error}") from error
