"""CEL selectors of devices, compiled and evaluated by cel-expr-python (Google's CEL in C++).

The library is imported with the first expression: a cluster without device classes does not pay for it.

Differences from the CEL of Kubernetes, which make an expression an error rather than another answer:

- Of Kubernetes' libraries there are `quantity`, `semver` and `sets`, but not `regex`, `lists`, `url`, `ip`,
  `cidr` and `format`.
- An unknown domain is empty, as in Kubernetes, only where it is written as `device.attributes["domain"]` or
  `device.capacity["domain"]`.
- Kubernetes estimates the cost of an expression when the object is created. The bounds here are simple ones,
  for objects that no API server has checked.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from phalanx.model.resources import InvalidQuantity, billionths
from phalanx.model.supplies.devices.capacity import Amount
from phalanx.model.supplies.devices.pools import Attribute, Device, QualifiedName
from phalanx.model.supplies.devices.versions import InvalidVersion, version_key

if TYPE_CHECKING:
    from cel_expr_python import cel

CEL_EXPRESSION_CHARACTERS_MAX: Final = 10 * 1024
"""Characters of a CEL expression: the limit of the API."""

CEL_COST_MAX: Final = 1_000_000
"""Evaluations of the bodies of its loops that an expression may cause, times the growth of texts, estimated:
the limit of the API, which estimates more exactly. A million evaluations take about half a second."""

_QUANTITY: Final = "kubernetes.Quantity"
_SEMVER: Final = "kubernetes.Semver"
_BILLION: Final = 10**9
_INT64: Final = range(-(2**63), 2**63)

_FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})

Found = Mapping[str, Any]
"""A value of CEL that stands for a quantity or a version: a map of one entry."""


class InvalidExpression(ValueError):
    """The expression does not compile, or may cost too much."""


class EvaluationFailed(ValueError):
    """The expression has no value for a device, such as one without an attribute that it reads."""


class Evaluator:
    """Compiles expressions. One for a process is enough."""

    def __init__(self) -> None:
        self._environment: cel.Env | None = None

    def compile(self, expression: str) -> "Expression":
        """Raises InvalidExpression."""
        _check_size(expression)
        written = _Source(expression)
        unknown = next((name for name in written.fields() if name not in _FIELDS), None)
        if unknown is not None:
            raise InvalidExpression(f"undefined field {unknown!r} of device")
        if self._environment is None:
            self._environment = _environment("device")
        try:
            compiled = self._environment.compile(written.with_default_domains())
        except RuntimeError as error:
            raise InvalidExpression(_first_error(str(error))) from None
        kind = compiled.return_type().name()
        if kind not in ("BOOL", "DYN"):
            raise InvalidExpression(f"must evaluate to bool, not {kind.lower()}")
        return Expression(compiled, written.reads())


class Expression:
    """A compiled expression. `reads`: the attributes and capacities that it reads; None if it may read
    any."""

    def __init__(self, compiled: "cel.Expression", reads: frozenset[QualifiedName] | None) -> None:
        self._compiled = compiled
        self.reads = reads

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the expression is true for the device. Raises EvaluationFailed."""
        value = self._compiled.eval(data={"device": _variable(driver, device)})
        if value.type().name() != "BOOL":
            found = value.value()
            text = (
                found if isinstance(found, str) else f"result is not bool but {value.type().name().lower()}"
            )
            raise EvaluationFailed(_first_error(text))
        return bool(value.value())


class Rules:
    """Compiles and evaluates rules of CRDs (`x-kubernetes-validations`). One for a process is enough."""

    def __init__(self) -> None:
        self._environment = _environment("self")
        self._compiled: dict[str, cel.Expression] = {}

    def holds(self, rule: str, value: Any) -> bool:
        """Whether the rule is true for the value, which its schema allows."""
        if rule not in self._compiled:
            self._compiled[rule] = self._environment.compile(rule)
        answer = self._compiled[rule].eval(data={"self": value})
        return answer.type().name() == "BOOL" and bool(answer.value())


# --- the variable `device` ----------------------------------------------------------------------------------


def _variable(driver: str, device: Device) -> Mapping[str, Any]:
    return {
        "driver": driver,
        "attributes": _by_domain({name: _value(each) for name, each in device.attributes.items()}),
        "capacity": _by_domain({name: _quantity_value(each) for name, each in device.capacity.items()}),
        "allowMultipleAllocations": device.allows_shares,
    }


def _by_domain(values: Mapping[QualifiedName, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, _, identifier = name.partition("/")
        found.setdefault(domain, {})[identifier] = value
    return found


def _value(attribute: Attribute) -> Any:
    value = attribute.value
    if attribute.kind == "version" and isinstance(value, str):
        return _version(value)
    if attribute.kind == "versions" and isinstance(value, tuple):
        return [_version(str(each)) for each in value]
    if value is None:
        raise EvaluationFailed("an attribute has a value of a kind that is not known")
    return list(value) if isinstance(value, tuple) else value


def _version(text: str) -> Found:
    try:
        version_key(text)
    except InvalidVersion as invalid:
        raise EvaluationFailed(str(invalid)) from None
    return {_SEMVER: text.partition("+")[0]}


def _quantity_value(amount: Amount | int) -> Found:
    return {_QUANTITY: str(amount)}


# --- functions ----------------------------------------------------------------------------------------------


def _order(one: Found, other: Found) -> int:
    if _SEMVER in one and _SEMVER in other:
        before, after = version_key(one[_SEMVER]), version_key(other[_SEMVER])
        return int(before > after) - int(before < after)
    left, right = _amount(one), _amount(other)
    return int(left > right) - int(left < right)


def _amount(value: Found) -> int:
    if _QUANTITY not in value:
        raise ValueError("no such overload: not a quantity")
    return int(value[_QUANTITY])


def _part(value: Found, index: int) -> int:
    if _SEMVER not in value:
        raise ValueError("no such overload: not a version")
    key = version_key(value[_SEMVER])
    return (key[0], key[1], key[2])[index]


def _as_integer(value: Found) -> int:
    whole, rest = divmod(_amount(value), _BILLION)
    if rest or whole not in _INT64:
        raise ValueError("cannot convert value to integer")
    return whole


def _is_integer(value: Found) -> bool:
    whole, rest = divmod(_amount(value), _BILLION)
    return not rest and whole in _INT64


def _read_quantity(text: str) -> Found:
    if text != text.strip():
        raise InvalidQuantity(text)
    return _quantity_value(billionths(text))


def _read_version(text: str, normalize: bool = False) -> Found:
    version_key(text, normalize=normalize)
    if normalize:
        key = version_key(text, normalize=True)
        prerelease = ".".join(part[2] or str(part[1]) for part in key[3] if part[0] != 2)
        text = ".".join(str(number) for number in key[:3]) + (f"-{prerelease}" if prerelease else "")
    return {_SEMVER: text.partition("+")[0]}


def _is_valid(read: Callable[..., Found], *arguments: Any) -> bool:
    try:
        read(*arguments)
    except ValueError:
        return False
    return True


def _plus(one: Found, other: Found | int, sign: int) -> Found:
    more = other * _BILLION if isinstance(other, int) else _amount(other)
    return _quantity_value(_amount(one) + sign * more)


def _domain(domains: Mapping[str, Any], name: str) -> Any:
    return domains.get(name, {})


def _contains(items: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(any(_equal(each, item) for item in items) for each in wanted)


def _equal(one: Any, other: Any) -> bool:
    """Equality of CEL, for which true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _functions() -> Iterator["cel.FunctionDecl"]:
    from cel_expr_python import cel

    kind = cel.Type
    found, text, boolean, whole = kind.Map(kind.STRING, kind.DYN), kind.STRING, kind.BOOL, kind.INT

    def function(
        name: str, *overloads: tuple[Any, list[Any], Callable[..., Any]], member: bool = True
    ) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", return_type=to, parameters=of, is_member=member, impl=body)
                for index, (to, of, body) in enumerate(overloads)
            ],
        )

    yield function(_DOMAIN, (kind.DYN, [found, text], _domain))
    yield function("quantity", (found, [text], _read_quantity), member=False)
    yield function("isQuantity", (boolean, [text], lambda a: _is_valid(_read_quantity, a)), member=False)
    yield function(
        "semver",
        (found, [text], _read_version),
        (found, [text, boolean], _read_version),
        member=False,
    )
    yield function(
        "isSemver",
        (boolean, [text], lambda a: _is_valid(_read_version, a)),
        (boolean, [text, boolean], lambda a, b: _is_valid(_read_version, a, b)),
        member=False,
    )
    yield function("compareTo", (whole, [found, found], _order))
    yield function("isGreaterThan", (boolean, [found, found], lambda a, b: _order(a, b) > 0))
    yield function("isLessThan", (boolean, [found, found], lambda a, b: _order(a, b) < 0))
    yield function("sign", (whole, [found], lambda a: (_amount(a) > 0) - (_amount(a) < 0)), member=False)
    yield function("isInteger", (boolean, [found], _is_integer))
    yield function("asInteger", (whole, [found], _as_integer))
    yield function("asApproximateFloat", (kind.DOUBLE, [found], lambda a: _amount(a) / _BILLION))
    for name, sign in (("add", 1), ("sub", -1)):
        yield function(
            name,
            (found, [found, found], lambda a, b, sign=sign: _plus(a, b, sign)),
            (found, [found, whole], lambda a, b, sign=sign: _plus(a, b, sign)),
        )
    lists = [kind.List(kind.DYN), kind.List(kind.DYN)]
    yield function("sets.contains", (boolean, lists, _contains), member=False)
    yield function(
        "sets.equivalent", (boolean, lists, lambda a, b: _contains(a, b) and _contains(b, a)), member=False
    )
    yield function(
        "sets.intersects", (boolean, lists, lambda a, b: any(_contains(a, [b_]) for b_ in b)), member=False
    )
    yield function("sum", (whole, lists[:1], sum))
    for index, name in enumerate(("major", "minor", "patch")):
        yield function(name, (whole, [found], lambda a, index=index: _part(a, index)))


def _environment(variable: str) -> "cel.Env":
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    return cel.NewEnv(
        variables={variable: cel.Type.DYN},
        functions=list(_functions()),
        extensions=[
            ext_bindings.ExtBindings(),
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
        ],
    )


# --- the text of an expression ------------------------------------------------------------------------------

_DOMAIN: Final = "phalanxDomain"
_LITERAL: Final = re.compile(
    r"""//[^\n]*|(?:[bBrR]{0,2})(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_INDEXED: Final = re.compile(r"\bdevice\s*\.\s*(?:attributes|capacity)\s*(\[)(?!\s*\?)")
_FIELD: Final = re.compile(r"\bdevice\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)")
_LOOPS: Final = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|bind|transform[A-Za-z]*)\s*\(")
_GROWING: Final = re.compile(r"\.\s*(?:replace|join|format)\s*\(")
_READ: Final = re.compile(
    r"""\bdevice\.(?:driver\b|allowMultipleAllocations\b"""
    r"""|(?:attributes|capacity)\["([^"\\]+)"\]\.\??([A-Za-z_][A-Za-z0-9_]*)\b(?!\s*\())"""
)
_BLANK: Final = "\x00"


class _Source:
    """An expression, and the same text with its literals blanked, so that they are not taken for code."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._code = _LITERAL.sub(lambda found: _BLANK * len(found.group()), text)

    def fields(self) -> Iterator[str]:
        """The fields of `device` that it reads by a dot."""
        return (found.group(1) for found in _FIELD.finditer(self._code))

    def with_default_domains(self) -> str:
        """The expression with `device.attributes[x]` as a call that returns an empty map for an unknown x."""
        text = list(self._text)
        for found in _INDEXED.finditer(self._code):
            end = self._closing(found.start(1))
            if end is not None:
                text[found.start(1)], text[end] = f".{_DOMAIN}(", ")"
        return "".join(text)

    def _closing(self, start: int) -> int | None:
        depth = 0
        for at in range(start, len(self._code)):
            depth += (self._code[at] in "[({") - (self._code[at] in "])}")
            if not depth:
                return at
        return None

    def reads(self) -> frozenset[QualifiedName] | None:
        """The attributes and capacities that it reads; None if it may read others."""
        found = list(_READ.finditer(self._text))
        uses = len(re.findall(r"\bdevice\b", self._code))
        if uses != len(found) or uses != len(re.findall(r"\bdevice\b", self._text)):
            return None
        return frozenset(f"{each.group(1)}/{each.group(2)}" for each in found if each.group(1))


def _check_size(expression: str) -> None:
    """Raises InvalidExpression for an expression that is too long or may cost too much."""
    if len(expression) > CEL_EXPRESSION_CHARACTERS_MAX:
        raise InvalidExpression(
            f"is longer than {CEL_EXPRESSION_CHARACTERS_MAX} characters, the limit of the API"
        )
    code = _LITERAL.sub(lambda found: _BLANK * len(found.group()), expression)
    each = max(_ELEMENTS_MAX, code.count(",") + 1, code.count("+") + 1)
    longest = max(map(len, _LITERAL.findall(expression)), default=0)
    growth = max(_CHARACTERS_MAX, longest) ** len(_GROWING.findall(code))
    if growth * each ** _loop_depth(code) > CEL_COST_MAX:
        raise InvalidExpression(
            "may cost too much: it has too many nested loops, or joined and replaced texts"
        )


_ELEMENTS_MAX: Final = 32
"""Attributes of a device, as the API limits them."""

_CHARACTERS_MAX: Final = 64
"""Characters of the value of an attribute, as the API limits them."""


def _loop_depth(code: str) -> int:
    """How many loops or bound names are inside each other."""
    starts = {found.end() - 1 for found in _LOOPS.finditer(code)}
    depth = deepest = 0
    open_loops: list[bool] = []
    for at, character in enumerate(code):
        if character == "(":
            open_loops.append(at in starts)
            depth += at in starts
            deepest = max(deepest, depth)
        elif character == ")" and open_loops:
            depth -= open_loops.pop()
    return deepest


def _first_error(text: str) -> str:
    """The first line of an error of the library, without what it adds to it."""
    line = text.partition("\n")[0]
    return re.sub(r"^(?:[A-Z_]+: )?(?:ERROR: )?(?:<input>:-?[0-9]+:-?[0-9]+: )?", "", line)[:200].strip()
