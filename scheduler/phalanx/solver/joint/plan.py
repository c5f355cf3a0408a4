"""What the master decides, and what regions tell it: data between the two."""

from msgspec import Struct


class Share(Struct, frozen=True):
    """Pods of a piece in one region, per kind."""

    piece: int
    counts: tuple[int, ...]


class Plan(Struct, frozen=True):
    """The gangs to admit, by index in order, and the shares of each region."""

    admitted: tuple[int, ...]
    value: int
    shares: tuple[tuple[Share, ...], ...]


class Lesson(Struct, frozen=True):
    """What a region has shown: such gangs do not lie in it with more than so much beside them.

    Where of each group at least so many pieces lie in the region, at most `rest` units (see `weights`, per
    kind) of pieces that may use several regions do; None: they do not fit at all. `proven`: bounds stay
    valid.
    """

    region: int
    groups: tuple[tuple[tuple[int, ...], int], ...]
    weights: tuple[int, ...] = ()
    rest: int | None = None
    proven: bool = True
