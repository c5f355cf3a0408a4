"""The configuration of a text, as the scheduler reads it from a file."""

from phalanx.framework.config import SchedulerConfig, config_errors, convert, load_settings


def parse_config(text: str) -> SchedulerConfig:
    """Parse YAML text; an empty text means all defaults. Raises ConfigError for the first error."""
    config = convert(load_settings(text))
    for error in config_errors(config):
        raise error
    return config
