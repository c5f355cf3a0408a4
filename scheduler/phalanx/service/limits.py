"""Limits of the running scheduler that no other package shares, each with its reason."""

from typing import Final

CONFIG_POLL_S: Final = 5.0
"""Seconds between two looks at the configuration file. The kubelet updates a mounted ConfigMap about once a
minute."""

CONFIG_BYTES_MAX: Final = 1 << 20
"""Bytes of a configuration file: a ConfigMap holds no more."""

RECORDS_OF_ABSENT_KEPT_S: Final = 600.0
"""Seconds that a new leader keeps records of gangs without pods: as long as lost members count."""
