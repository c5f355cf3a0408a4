"""Recorded cycles of a running scheduler, fetched from its debug endpoint."""

from collections import deque
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError, URLError

from msgspec import Struct
from phalanx.cli.snapshot import fetch

from phalanx_dashboard.pages.decisions import Cycle, cycle_of

_CYCLES_KEPT: Final = 20
"""Recorded cycles that can be downloaded."""

_CYCLES_BYTES_MAX: Final = 64 << 20
"""Bytes of recorded cycles that are kept. A cycle of 1,000 nodes and 10,000 pods has about 1 MiB."""


class Kept(Struct, frozen=True):
    """A cycle with its file."""

    cycle: Cycle
    content: bytes


class Recordings:
    """The last cycles that were fetched."""

    def __init__(self, url: str) -> None:
        """`url`: of the debug endpoint; empty for none."""
        self.url = url.rstrip("/")
        self.problem = ""
        self._kept: deque[Kept] = deque(maxlen=_CYCLES_KEPT)

    def fetch(self) -> None:
        """Fetch the last cycle, and keep it if it is a new one. This blocks."""
        if not self.url:
            return
        try:
            self.add(fetch(f"{self.url}/debug/snapshot"))
            self.problem = ""
        except HTTPError as error:
            self.problem = error.read().decode(errors="replace").strip()
        except URLError as error:
            self.problem = f"{self.url}: {error.reason}"
        except (OSError, HTTPException, ValueError) as error:
            self.problem = f"{self.url}: {error}"

    def add(self, content: bytes) -> None:
        """Keep a file. Raises RecordingError."""
        if any(kept.content == content for kept in self._kept):
            return
        self._kept.append(Kept(cycle_of(content), content))
        while len(self._kept) > 1 and sum(len(kept.content) for kept in self._kept) > _CYCLES_BYTES_MAX:
            self._kept.popleft()

    @property
    def cycles(self) -> tuple[Cycle, ...]:
        """The newest first."""
        return tuple(kept.cycle for kept in reversed(self._kept))

    def file(self, cycle: int) -> bytes | None:
        """The file of a cycle for `phalanx replay`; None if it is not kept."""
        return next((kept.content for kept in reversed(self._kept) if kept.cycle.cycle == cycle), None)
