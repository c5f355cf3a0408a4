"""The check of placements, with its objections as logs show them."""

from phalanx.model.decisions import Bind, Placement
from phalanx.model.named_parts import plain
from phalanx.service.write_checks import CachePlacementCheck


class PlainCheck(CachePlacementCheck):
    """All names are plain text."""

    def gang(self, placement: Placement) -> str | None:
        return _plain(super().gang(placement))

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        return _plain(super().bind(placement, bind))


def _plain(text: str | None) -> str | None:
    return None if text is None else plain(text)
