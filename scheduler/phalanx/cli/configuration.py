"""Read the scheduler's configuration file."""

from pathlib import Path

from phalanx.cli.exits import BadInput
from phalanx.framework.config import ConfigError, SchedulerConfig, parse_config
from phalanx.framework.registry import load_plugins


def read_config(path: Path | None) -> SchedulerConfig:
    """Read the configuration; all defaults without a file. Raises BadInput, also for an unknown plugin."""
    try:
        config = parse_config(path.read_text() if path else "")
        load_plugins(config)
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, found: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    return config
