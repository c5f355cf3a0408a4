"""Selectors of devices: bounds, what they read, and that each is evaluated once."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.supplies.devices.expressions import (
    CEL_EXPRESSION_CHARACTERS_MAX,
    EvaluationFailed,
    Evaluator,
    Expression,
    InvalidExpression,
)
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pools import Attribute, Device
from phalanx.model.supplies.devices.versions import InvalidVersion, version_key

from tests.examples import holds
from tests.model.devices import DRIVER, claim_of, class_of, device, request, slice_of

OWN = f'device.attributes["{DRIVER}"]'


def test_the_library_is_imported_with_the_first_expression() -> None:
    code = (
        "import sys; from phalanx.model.supplies.devices.matching import Matcher; m = Matcher(); "
        "assert 'cel_expr_python' not in sys.modules; assert not m.problem_of('true'); "
        "assert 'cel_expr_python' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("x" * (CEL_EXPRESSION_CHARACTERS_MAX + 1), "is longer than 10240 characters"),
        ("[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))", "may cost too much"),
        ("cel.bind(a, 'x', " * 40 + "true" + ")" * 40, "may cost too much"),
        ("'a'" + ".replace('a','aaaaaaaaaa')" * 12 + " == ''", "may cost too much"),
        ("device.nothing", "undefined field 'nothing' of device"),
        ("1", "must evaluate to bool, not int"),
        ("other == 1", "undeclared reference to 'other'"),
        ("(" * 5000 + "true" + ")" * 5000, "Expression recursion limit exceeded"),
        ("true" + " == true" * 900, "Exceeded max recursion depth"),
        ('device.attributes["a', "Syntax error"),
        ("device.attributes[", "Syntax error"),
        ("", "Syntax error"),
    ],
    ids=lambda text: text[:40],
)
def test_what_does_not_compile_says_why(expression: str, problem: str) -> None:
    with pytest.raises(InvalidExpression) as raised:
        Evaluator().compile(expression)
    assert str(raised.value).startswith(problem)
    assert "\n" not in str(raised.value)
    assert "phalanx" not in str(raised.value)


@holds(50)
@given(st.text(max_size=40) | st.lists(st.sampled_from(list('device.attributes["a"]().,x+!&|')), max_size=30))
def test_arbitrary_expressions_raise_nothing_else(written: str | list[str]) -> None:
    try:
        compiled = Evaluator().compile("".join(written))
    except InvalidExpression:
        return
    try:
        compiled.matches("d", Device("x"))
    except EvaluationFailed:
        return


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ("device.driver == 'x'", set()),
        (f'{OWN}.a == 1 && device.capacity["b"].c.isInteger()', {f"{DRIVER}/a", "b/c"}),
        (f"{OWN}.?a.orValue(1) == 1", {f"{DRIVER}/a"}),
        (f"{OWN}.a.size() == 1", {f"{DRIVER}/a"}),
        (f'{OWN}["a"] == 1', None),
        (f"{OWN}.all(k, true)", None),
        (f'"a" in {OWN}', None),
        ("cel.bind(d, device, true)", None),
        (f"{OWN}.a == 'device'", None),
        (f"'device.driver' == '' || {OWN}.a", None),
    ],
)
def test_what_an_expression_reads(expression: str, reads: set[tuple[str, str]] | None) -> None:
    assert Evaluator().compile(expression).reads == reads


def test_devices_that_differ_in_what_is_not_read_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    real = Expression.matches

    def counted(self: Expression, driver: str, each: Device) -> bool:
        nonlocal count
        count += 1
        return real(self, driver, each)

    monkeypatch.setattr(Expression, "matches", counted)
    matcher = Matcher()
    one = class_of("gpu", f'{OWN}.model == "a"')
    ((wanted,),) = claim_of(request()).spec.requests
    devices = slice_of(*(device(f"d{n}", model="ab"[n % 2], serial=n) for n in range(10))).devices
    found = [matcher.matches(wanted, one, DRIVER, each) for each in devices]
    assert found == [True, False] * 5
    assert count == 2


def test_a_value_of_an_unknown_kind_is_an_error_whatever_is_read() -> None:
    strange = Device("d", attributes={"x/y": Attribute("", None)})
    ((wanted,),) = claim_of(request()).spec.requests
    found: Any = Matcher().matches(wanted, class_of("gpu", "true"), DRIVER, strange)
    assert "kind that is not known" in found.text


def test_versions_are_ordered_as_semver_says() -> None:
    ordered = ["0.9.9", "1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0"]
    assert sorted(("1.0.0", *ordered[:-1]), key=version_key) == ordered
    assert version_key("1.0.0+a") == version_key("1.0.0+b")
    for text in ("1.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "", "1.0.0\n"):
        with pytest.raises(InvalidVersion):
            version_key(text)
    for text in ("v1", "1.0", "01.00.0"):
        assert version_key(text, normalize=True) == version_key("1.0.0")
    with pytest.raises(InvalidVersion):
        version_key("1.0-a", normalize=True)
