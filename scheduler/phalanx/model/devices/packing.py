"""Which pods fit on a node together that ask for one device each, and how to serve them: exact, by counting.

Each pod is of a kind, and pods of one kind ask for the same. Of a device that is allocated in shares, several
pods have some: as many of each kind as its capacity allows. Devices are added one after the other; for all
numbers of pods of the other kinds, the most pods of the main kind are kept that fit beside them.

numpy is imported when something is counted: people wait for commands that import this module.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from phalanx.model.devices.allocator import Candidate, NodeDevices, candidates, match_of
from phalanx.model.devices.claims import DeviceClasses, Request
from phalanx.model.devices.limits import PACKED_ROWS_MAX
from phalanx.model.devices.matching import Matcher, MatchError
from phalanx.model.devices.shares import Shares, ask_for_amounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NEVER: Final = -(1 << 40)
"""In place of a number of pods: those of the other kinds do not fit."""

_Counts = tuple[int, ...]

_Part = tuple[_Counts, int]
"""Pods of the other kinds that have a device, and the most of the main kind beside them."""


class _Device(Struct, frozen=True):
    """A free device: for each kind that may have it, what a pod consumes, and what there is to consume.
    Without `left` a single pod may have it."""

    needed: tuple[dict[str, int] | None, ...]
    left: dict[str, int] | None


class Packing:
    """Pods of each kind on the devices of a node: at most so many."""

    def __init__(self, devices: Sequence[_Device], most: _Counts, main: int) -> None:
        import numpy as np

        self._main = main
        self._others = tuple(kind for kind in range(len(most)) if kind != main)
        self._most = most
        shape = tuple(most[kind] + 1 for kind in self._others)
        none = np.full(shape, _NEVER, dtype=np.int64)
        none[(0,) * len(shape)] = 0
        self._fits: list[NDArray[np.int64]] = [none]
        """By number of devices, for the pods of the other kinds, the most pods of the main kind."""
        self._parts: list[Sequence[_Part]] = []
        known: dict[str, Sequence[_Part]] = {}
        for each in devices:
            key = repr((each.needed, each.left))
            if key not in known:
                known[key] = tuple(self._parts_of(each))
            self._parts.append(known[key])
            self._fits.append(self._with(self._fits[-1], known[key]))

    def beside(self, others: _Counts) -> int:
        """The most pods of the main kind beside these of all kinds but that one; -1 if these do not fit."""
        return max(-1, int(self._fits[-1][tuple(others[kind] for kind in self._others)]))

    def order(self, pods: _Counts) -> list[int] | None:
        """The kinds of these pods in an order in which each can have the first device that suffices for it;
        None if the pods do not fit.

        They are in the order of the devices on which they fit. If one gets an earlier device, more is left.
        """
        rest, mains, found = tuple(pods[kind] for kind in self._others), pods[self._main], list[int]()
        if self._fits[-1][rest] < mains:
            return None
        for before, parts in zip(reversed(self._fits[:-1]), reversed(self._parts), strict=True):
            for part, own in parts:
                less = tuple(count - more for count, more in zip(rest, part, strict=True))
                if min(less, default=0) >= 0 and before[less] + own >= mains:
                    here = max(0, mains - int(before[less]))
                    found += [self._main] * here
                    found += [
                        kind for kind, more in zip(self._others, part, strict=True) for _ in range(more)
                    ]
                    rest, mains = less, mains - here
                    break
        return found[::-1]

    def _with(self, before: "NDArray[np.int64]", parts: Sequence[_Part]) -> "NDArray[np.int64]":
        """What fits with another device."""
        import numpy as np

        found = np.full_like(before, _NEVER)
        for part, own in parts:
            if all(more < size for more, size in zip(part, before.shape, strict=True)):
                to = tuple(slice(more, None) for more in part)
                of = tuple(slice(None, size - more) for more, size in zip(part, before.shape, strict=True))
                found[to] = np.maximum(found[to], before[of] + own)
        return np.minimum(found, self._most[self._main])

    def _parts_of(self, device: _Device) -> Iterator[_Part]:
        """All pods that can have the device together."""
        none, main = (0,) * len(self._others), device.needed[self._main]
        if device.left is None:
            yield none, int(main is not None)
            for place, kind in enumerate(self._others):
                if device.needed[kind] is not None:
                    yield tuple(int(at == place) for at in range(len(none))), 0
            return
        for part in product(*(range(self._most_of(device, kind) + 1) for kind in self._others)):
            left = dict(device.left)
            for kind, count in zip(self._others, part, strict=True):
                for name, amount in (device.needed[kind] or {}).items() if count else ():
                    left[name] -= count * amount
            if min(left.values(), default=0) >= 0:
                yield part, _times(main, left, self._most[self._main])

    def _most_of(self, device: _Device, kind: int) -> int:
        return _times(device.needed[kind], device.left or {}, self._most[kind])


def _times(needed: dict[str, int] | None, left: dict[str, int], most: int) -> int:
    """How often what is left has what is needed, at most so often."""
    if needed is None:
        return 0
    return min([most, *(left[name] // amount for name, amount in needed.items() if amount)])


def packing(
    place: NodeDevices,
    requests: Sequence[Request | None],
    most: _Counts,
    main: int,
    *,
    classes: DeviceClasses,
    matcher: Matcher,
) -> Packing | None:
    """The packing for pods that make one of these requests, for one device; None requests nothing.

    None if counting does not tell what fits: devices share counters, a search for devices would end with an
    error, or there are too many numbers of pods.
    """
    if prod(count + 1 for kind, count in enumerate(most) if kind != main) > PACKED_ROWS_MAX:
        return None
    found = []
    shares = Shares(place.in_use, are_amounts_asked=ask_for_amounts(filter(None, requests)))
    for each in candidates(place.pools):
        matches = [
            request is not None and match_of(matcher, classes, place.node, request, each)
            for request in requests
        ]
        if any(isinstance(match, MatchError) for match in matches):
            return None
        if each.id in place.in_use:
            continue
        wanted = [
            request
            if match is True and request is not None and request.tolerates(each.device.taints)
            else None
            for request, match in zip(requests, matches, strict=True)
        ]
        if any(some is not None and shares.is_error(some, each.id, each.device) for some in wanted):
            return None
        needed = tuple(None if some is None else _needed(shares, some, each) for some in wanted)
        if all(some is None for some in needed):
            continue
        if each.device.consumes:
            return None
        left = shares.left(each.id, each.device) if each.device.allows_shares else None
        found.append(_Device(needed, left))
    return Packing(found, most, main)


def _needed(shares: Shares, request: Request, each: Candidate) -> dict[str, int] | None:
    """What a pod with this request consumes of the device; None if it cannot have it."""
    if not shares.most(request, each.id, each.device, 1):
        return None
    return shares.wanted(request, each.id, each.device) if each.device.allows_shares else {}
