"""Shares of devices in simulated clusters: what claims consume, and what devices have.

Written from the API documentation of Kubernetes, with arithmetic of its own: the checks share no code with
what they check.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from phalanx_simulator.embedded.store import Object, Store
from phalanx_simulator.invariants.claim_facts import SLICES, Device, results_of

_SUFFIXES: Final = {
    **{name: Fraction(1, 1000**power) for power, name in enumerate("mun", 1)},
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)},
}


def quantity(text: str) -> Fraction:
    """The number that a quantity means."""
    number = text.rstrip("mnukKMGTPEi")
    return Fraction(number) * _SUFFIXES.get(text[len(number) :], Fraction(1))


def overused(device: Device, claims: Iterable[Object], store: Store) -> str:
    """How these claims, which have the device, use it too much; empty if they do not.

    One claim may have a device, or several may have shares of it, which together consume no more than it has.
    What a driver does not publish any more is not compared.
    """
    found = [(claim, each) for claim in claims for named, each in results_of(claim) if named == device]
    if len({claim["metadata"]["uid"] for claim, _ in found}) > 1 and not all(
        each.get("shareID") for _, each in found
    ):
        return "is allocated to another claim too"
    shares = [each for _, each in found if each.get("shareID")]
    if len({each["shareID"] for each in shares}) < len(shares):
        return "has two shares with one ID"
    for name, amount in _capacity(device, store):
        used = sum(
            (quantity(each["consumedCapacity"][name]) for each in shares if name in _consumed(each)),
            Fraction(),
        )
        if used > amount:
            return f"has {amount} of {name}, and its claims consume {used}"
    return ""


def _consumed(result: Object) -> Object:
    return result.get("consumedCapacity") or {}


def _capacity(device: Device, store: Store) -> Iterator[tuple[str, Fraction]]:
    """What the newest slices say that the device has."""
    driver, pool, name = device
    slices = [
        entry.data["spec"]
        for entry in store.entries(SLICES)
        if (entry.data["spec"]["driver"], entry.data["spec"]["pool"]["name"]) == (driver, pool)
    ]
    newest = max((each["pool"].get("generation", 0) for each in slices), default=0)
    for spec in slices:
        for each in spec.get("devices") or () if spec["pool"].get("generation", 0) == newest else ():
            if each["name"] == name:
                written = each.get("capacity") or {}
                yield from ((key, quantity(str(amount["value"]))) for key, amount in written.items())
