"""Limits of writers that no other package shares, each with its reason."""

from typing import Final

RECORDS_BYTES_MAX: Final = 512 << 10
"""Bytes of the ConfigMap with the records of gangs. Kubernetes allows 1 MiB. One entry takes about 100 bytes,
so that there is space for 5,000 gangs."""

RECORDS_WRITE_RATE: Final = 512 << 10
"""Bytes of that ConfigMap that are written per second: etcd keeps each version for about five minutes, and
150 MiB of them are little of its 2 GiB."""

RECORDS_DELAY_S: Final = 2.0
"""Seconds before a change of records is written that no bind waits for, so that one write serves many."""
