"""Quantities: tables of accepted and refused forms, and property tests."""

from contextlib import suppress
from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.limits import AMOUNT_MAX
from phalanx.model.resources import QUANTITY_EXPONENT_MAX, InvalidQuantity, capacity_amount, request_amount

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# (written, rounded up, rounded down), in whole units
ACCEPTED = [
    ("0", 0, 0),
    ("1", 1, 1),
    (8, 8, 8),
    (0.5, 1, 0),
    (1e3, 1000, 1000),
    ("+7", 7, 7),
    ("-0", 0, 0),
    ("007", 7, 7),
    ("1.", 1, 1),
    (".5", 1, 0),
    ("1.5", 2, 1),
    ("1.000000000000000000000000000001", 2, 1),
    ("1n", 1, 0),
    ("1u", 1, 0),
    ("1m", 1, 0),
    ("1500m", 2, 1),
    ("1k", 1000, 1000),
    ("1M", 10**6, 10**6),
    ("1G", 10**9, 10**9),
    ("1T", 10**12, 10**12),
    ("1P", 10**15, 10**15),
    ("9E", 9 * 10**18, 9 * 10**18),
    ("1Ki", 2**10, 2**10),
    ("1Mi", 2**20, 2**20),
    ("64Gi", 2**36, 2**36),
    ("1.5Gi", 3 * 2**29, 3 * 2**29),
    ("0.3Ki", 308, 307),
    ("1Ti", 2**40, 2**40),
    ("1Pi", 2**50, 2**50),
    ("1Ei", 2**60, 2**60),
    ("1e3", 1000, 1000),
    ("1E3", 1000, 1000),
    ("1e+3", 1000, 1000),
    ("25e-1", 3, 2),
    ("1E", 10**18, 10**18),
    ("1e0", 1, 1),
    (" 1Gi\n", 2**30, 2**30),
    ("10E", AMOUNT_MAX, AMOUNT_MAX),
    ("8Ei", AMOUNT_MAX, AMOUNT_MAX),
    ("9223372036854775807", AMOUNT_MAX, AMOUNT_MAX),
    ("9223372036854775808", AMOUNT_MAX, AMOUNT_MAX),
    ("1e30", AMOUNT_MAX, AMOUNT_MAX),
    (2**63, AMOUNT_MAX, AMOUNT_MAX),
]

REFUSED = [
    "",
    " ",
    ".",
    "+",
    "m",
    "Ki",
    "e3",
    "abc",
    "1 Gi",
    "1gi",
    "1ki",
    "1K",
    "1mi",
    "1i",
    "1Kim",
    "1GG",
    "1e",
    "1e+",
    "1e1.5",
    "1ee3",
    "1E3Ki",
    "--1",
    "+-1",
    "1-",
    "1.2.3",
    "1,5",
    "1_000",
    "0x10",
    "1e400",
    "1e-400",
    "1e31",
    "1" * 65,
    "NaN",
    "nan",
    "Inf",
    "-Inf",
    "infinity",
    "１２",  # fullwidth digits
    "٣",
    "1²",
    "1\u00a0Gi",
    "1Gi\x00",
    float("nan"),
    float("inf"),
    1e31,
    True,
    10**5000,
    "-1",
    "-1n",
    -1,
    -0.5,
]


@pytest.mark.parametrize(("written", "up", "down"), ACCEPTED)
def test_accepted(written: int | float | str, up: int, down: int) -> None:
    assert request_amount("memory", written) == up
    assert capacity_amount("memory", written) == down


@pytest.mark.parametrize(
    "written", REFUSED, ids=lambda written: repr(written)[:20] if not isinstance(written, int) else "int"
)
@pytest.mark.parametrize("read", [request_amount, capacity_amount])
def test_refused(read: type, written: int | float | str) -> None:
    with pytest.raises(InvalidQuantity, match="is not valid, expected "):
        read("memory", written)


def test_cpu_is_counted_in_thousandths() -> None:
    assert request_amount("cpu", "0.5") == 500
    assert request_amount("cpu", "100u") == 1
    assert capacity_amount("cpu", "1999999u") == 1999
    assert request_amount("cpu", "9E") == AMOUNT_MAX
    assert request_amount("nvidia.com/gpu", "0.5") == 1


def test_the_error_message_names_the_expected_form() -> None:
    with pytest.raises(InvalidQuantity) as error:
        request_amount("cpu", "lots")
    assert str(error.value).startswith("'lots' is not valid, expected a quantity such as")


signs = st.sampled_from(["", "+"])
numbers = st.one_of(
    st.from_regex(r"[0-9]{1,18}", fullmatch=True),
    st.from_regex(r"[0-9]{0,12}\.[0-9]{1,9}", fullmatch=True),
    st.from_regex(r"[0-9]{1,12}\.", fullmatch=True),
)
exponents = st.integers(-QUANTITY_EXPONENT_MAX, QUANTITY_EXPONENT_MAX)


@given(signs, numbers, st.sampled_from(list(DECIMAL)), st.sampled_from(["memory", "cpu"]))
def test_decimal_forms_are_exact(sign: str, number: str, suffix: str, resource: str) -> None:
    check(sign + number + suffix, resource, Fraction(tidy(number)) * Fraction(10) ** DECIMAL[suffix])


@given(signs, numbers, st.sampled_from(list(BINARY)), st.sampled_from(["memory", "cpu"]))
def test_binary_forms_are_exact(sign: str, number: str, suffix: str, resource: str) -> None:
    check(sign + number + suffix, resource, Fraction(tidy(number)) * 2 ** BINARY[suffix])


@given(signs, numbers, st.sampled_from("eE"), exponents, st.sampled_from(["memory", "cpu"]))
def test_exponents_are_exact(sign: str, number: str, letter: str, exponent: int, resource: str) -> None:
    check(f"{sign}{number}{letter}{exponent}", resource, Fraction(tidy(number)) * Fraction(10) ** exponent)


@given(st.text(max_size=12))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    with suppress(InvalidQuantity):
        assert 0 <= request_amount("memory", text) <= AMOUNT_MAX


def tidy(number: str) -> str:
    """Fraction wants a digit on both sides of the point."""
    return f"0{number}0" if "." in number else number


def check(written: str, resource: str, exact: Fraction) -> None:
    in_unit = exact * 1000 if resource == "cpu" else exact
    assert request_amount(resource, written) == min(ceil(in_unit), AMOUNT_MAX)
    assert capacity_amount(resource, written) == min(floor(in_unit), AMOUNT_MAX)
