"""The scheduler's configuration file, for every command that decides."""

from pathlib import Path

from phalanx.cli.exits import BadInput
from phalanx.framework.config import ConfigError, SchedulerConfig, parse_config
from phalanx.framework.registry import load_plugins


def read_config(path: Path | None) -> SchedulerConfig:
    """All defaults without a file. Raises BadInput, also for a plugin that does not exist."""
    try:
        config = parse_config(path.read_text() if path else "")
        load_plugins(config)
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, found: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    return config
