"""Bounds of real nodes, each with its unit and its reason."""

from typing import Final

NODE_READY_TIMEOUT_S: Final = 180.0
"""Seconds until a node must be Ready. About 10 s on idle cores, far more when tests share them."""

NODE_STOP_TIMEOUT_S: Final = 20.0
"""Seconds for the last processes of a node to end after they were killed."""

NODE_LEASE_S: Final = 12
"""Seconds without a heartbeat until a node is lost. Short for tests, longer than a pause under load."""

IMAGE_IMPORT_TIMEOUT_S: Final = 300.0
"""Seconds to import one image. About 5 s for 200 MB on idle cores."""

COMMAND_TIMEOUT_S: Final = 60.0
"""Seconds for a program such as ip or openssl, which take far less."""

RELAY_CHUNK_BYTES: Final = 1 << 16
"""Bytes that the relay reads at once: a full buffer of a pipe."""

FOLDER_PATH_BYTES_MAX: Final = 60
"""Bytes of the path of a cluster's folder. Paths of sockets add up to 45 bytes, and Linux allows 107."""
