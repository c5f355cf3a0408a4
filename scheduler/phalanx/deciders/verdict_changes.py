"""Send the verdicts of a cycle as changes of those of the last one: most of thousands stay the same."""

from array import array
from collections.abc import Sequence

from msgspec import Struct

from phalanx.model.reasons import Verdict


class VerdictChanges(Struct, frozen=True):
    """Verdicts in order, each new or at a position among the last ones."""

    new: tuple[Verdict, ...]
    positions: bytes | None = None
    """64-bit integers: the position of a verdict among the last ones; -1 for the next new one. None if all
    stay the same."""


def changes_of(before: Sequence[Verdict], verdicts: tuple[Verdict, ...]) -> VerdictChanges:
    """The changes between the verdicts of two cycles. Verdicts that stay the same are the same objects."""
    if verdicts == before:
        return VerdictChanges(())
    known = {id(verdict): position for position, verdict in enumerate(before)}
    positions = [known.get(id(verdict), -1) for verdict in verdicts]
    new = tuple([verdict for verdict, at in zip(verdicts, positions, strict=True) if at < 0])
    return VerdictChanges(new, array("q", positions).tobytes())


def apply_changes(before: Sequence[Verdict], changes: VerdictChanges) -> tuple[Verdict, ...]:
    """The verdicts of the second cycle."""
    if changes.positions is None:
        return tuple(before)
    positions, new = array("q"), iter(changes.new)
    positions.frombytes(changes.positions)
    return tuple([before[at] if at >= 0 else next(new) for at in positions])
