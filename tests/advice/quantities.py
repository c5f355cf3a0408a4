"""Quantities in manifests, as exact numbers."""

import re
from fractions import Fraction
from typing import Final

from tests.advice.clusters import Document
from tests.advice.reading import Amounts


class NotFollowable(Exception):
    """The advice names something that does not exist, or describes what cannot be done."""


_UNITS: Final = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(1 << 10),
    "Mi": Fraction(1 << 20),
    "Gi": Fraction(1 << 30),
    "Ti": Fraction(1 << 40),
}


def quantity(text: str) -> Fraction:
    """The value of a quantity."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-zA-Z]*)", text)
    if match is None or match[2] not in _UNITS:
        raise NotFollowable(f"no quantity: {text}")
    return Fraction(match[1]) * _UNITS[match[2]]


def written(name: str, amount: Fraction) -> str:
    """The amount as a quantity, rounded up as a request and exact as a sum of such."""
    if name == "cpu":
        return f"{-(-amount * 1000 // 1)}m"
    return str(-(-amount // 1))


def raise_amounts(there: Document, amounts: Amounts) -> None:
    """Add amounts to those of a document."""
    for name, text in amounts.items():
        total = quantity(there.get(name, "0")) + (Fraction(text) if "/" in text else quantity(text))
        there[name] = written(name, total)


def requests_of(pod: Document) -> dict[str, Fraction]:
    resources = pod["spec"]["containers"][0].get("resources", {})
    return {name: quantity(text) for name, text in resources.get("requests", {}).items()}
