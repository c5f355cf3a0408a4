"""Bounds of the local control plane, each with its unit and its reason."""

from typing import Final

CONTROL_PLANE_BUILD_TIMEOUT_S: Final = 1800.0
"""Seconds to build one program from source. kube-apiserver takes about 180 s on two idle cores."""

CONTROL_PLANE_START_TIMEOUT_S: Final = 120.0
"""Seconds until a component must be ready. About 4 s on idle cores, far more when tests share them."""

CONTROL_PLANE_STOP_TIMEOUT_S: Final = 5.0
"""Seconds between the stop signal for a component and its kill. An apiserver waits 60 s for open watches."""

CONTROL_PLANE_POLL_S: Final = 0.05
"""Seconds between two checks of a component that starts or stops."""

CONTROL_PLANE_PROBE_TIMEOUT_S: Final = 5.0
"""Seconds for one readiness request. A starting apiserver answers within it or is probed again."""

CONTROL_PLANE_PORTS: Final = range(20_000, 30_000)
"""Port numbers to listen on: below the range that Linux uses for outgoing connections."""

CONTROL_PLANE_MEMORY_FREE_MIN: Final = 2 << 30
"""Bytes that must be free in /dev/shm to store the data of etcd there. 10,000 pods take about 0.5 GiB."""

BULK_CREATE_CONCURRENCY: Final = 64
"""Create requests in flight when a fake cluster is filled. More connections only add latency."""

BULK_CREATE_TIMEOUT_S: Final = 60.0
"""Seconds for one such request: the request timeout of the API server."""
