"""Deals places that several pieces share: the largest piece first, from where most is left."""

from collections.abc import Iterator, Mapping, Sequence

from phalanx.solver.joint.plan import Share


def dealt(slots: Sequence[Sequence[int]], takers: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, Share]]:
    """Regions and shares, so that each piece gets what it takes per kind; the slots per region are enough."""
    left = [list(each) for each in slots]
    for piece in sorted(takers, key=lambda piece: (-sum(takers[piece]), piece)):
        missing = list(takers[piece])
        while any(missing):
            region = max(range(len(left)), key=lambda region: (_most(left[region], missing), -region))
            counts = tuple(map(min, left[region], missing))
            if not any(counts):
                raise AssertionError("the slots were made for these pieces")
            left[region] = [have - take for have, take in zip(left[region], counts, strict=True)]
            missing = [want - take for want, take in zip(missing, counts, strict=True)]
            yield region, Share(piece, counts)


def _most(have: Sequence[int], missing: Sequence[int]) -> int:
    return sum(map(min, have, missing))
