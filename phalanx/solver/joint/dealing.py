"""Deals places that several gangs share: the largest gang first, from where most is left."""

from collections.abc import Iterator, Mapping, Sequence

from phalanx.solver.joint.plan import Share


def dealt(slots: Sequence[Sequence[int]], takers: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, Share]]:
    """Regions and shares, so that each gang gets what it takes per kind; the slots per region are enough."""
    left = [list(each) for each in slots]
    for gang in sorted(takers, key=lambda gang: (-sum(takers[gang]), gang)):
        missing = list(takers[gang])
        while any(missing):
            region = max(range(len(left)), key=lambda region: (_most(left[region], missing), -region))
            counts = tuple(map(min, left[region], missing))
            if not any(counts):
                raise AssertionError("the slots were made for these gangs")
            left[region] = [have - take for have, take in zip(left[region], counts, strict=True)]
            missing = [want - take for want, take in zip(missing, counts, strict=True)]
            yield region, Share(gang, counts)


def _most(have: Sequence[int], missing: Sequence[int]) -> int:
    return sum(map(min, have, missing))
