"""Limits of the dashboard, each with its reason."""

from typing import Final

READ_PERIOD_S: Final = 2.0
"""Seconds between two readings of the cluster while somebody looks, as `phalanx top` has them."""

READ_SHARE: Final = 5
"""A reading that takes long is followed by a pause of so many times its length, so that a large cluster is
not read all the time."""

IDLE_PERIOD_S: Final = 30.0
"""Seconds between two readings while nobody looks, for the shares over time."""

RECONNECT_PERIOD_S: Final = 600.0
"""Seconds after which the kubeconfig is read again: many tokens expire within an hour."""

KEEPALIVE_PERIOD_S: Final = 15.0
"""Seconds between two comments on a silent stream of events. Proxies end streams that are silent for a
minute."""

STREAMS_MAX: Final = 200
"""Streams of events at the same time. Each holds a connection."""

SAMPLES_MAX: Final = 720
"""Samples of the shares of queues. With the period below these are two hours."""

SAMPLE_PERIOD_S: Final = 10
"""Seconds between two samples of the shares of queues."""

GANGS_PER_PAGE: Final = 100
"""Gangs that the table of gangs shows at once. More rows slow a browser down."""

GANGS_PER_ANSWER_MAX: Final = 500
"""Gangs that a client of the JSON may ask for at once."""

PODS_SHOWN: Final = 500
"""Pods that the page of a gang lists. `kubectl get pods` lists the others."""

DOMAINS_SHOWN: Final = 64
"""Domains that the picture of a gang shows, those with most pods first."""

GANGS_OF_DOMAIN_SHOWN: Final = 5
"""Gangs that the map names for a domain, those with most pods there first."""

WAITING_SHOWN: Final = 10
"""Waiting gangs, and nodes with faults, on the overview."""

DECISIONS_LISTED: Final = 200
"""Events that the page of decisions lists, the newest ones."""

CYCLES_KEPT: Final = 20
"""Recorded cycles that can be downloaded."""

CYCLES_BYTES_MAX: Final = 64 << 20
"""Bytes of recorded cycles that are kept. A cycle of 1,000 nodes and 10,000 pods has about 1 MiB."""

CYCLE_LINES_MAX: Final = 200
"""Decisions of one recorded cycle that are listed. The file has all of them."""

SCOPES_KEPT: Final = 16
"""Different sets of rights for which the pages of one reading are kept."""

PAGES_KEPT: Final = 32
"""Pages of one reading that are kept as JSON. That of a topology of 10,000 nodes has half a MiB."""

SECRET_SIZE: Final = 24
"""Bytes of the secret in the link that `phalanx dashboard` prints: 192 bits cannot be guessed."""

ACCESS_PERIOD_S: Final = 60.0
"""Seconds for which a review of a token counts. A right that is taken away is gone after them."""

TOKENS_KEPT: Final = 1000
"""Tokens whose reviews are kept."""

TOKEN_SIZE_MAX: Final = 3500
"""Characters of a token. Browsers keep cookies of at most 4,096 bytes."""

REVIEW_THREADS: Final = 8
"""Reviews of one user that are asked for at the same time, one for each namespace."""
