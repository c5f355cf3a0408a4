"""The advice without one of its parts, as docs/reasons.md lists parts: then it must not be enough."""

from collections.abc import Iterator

from msgspec.structs import replace

from tests.advice.reading import Advice

PAIR = 2
"""Holders that an advice names exactly; a larger set may be larger than necessary, and says so."""


def without_a_part(advice: Advice) -> Iterator[tuple[str, Advice]]:
    """Each part in words, and the advice without it."""
    if advice.is_later and advice.kind != "all end":
        yield "the end of running work", replace(advice, is_later=False)
    for index, step in enumerate(advice.steps):
        others = (*advice.steps[:index], *advice.steps[index + 1 :])
        yield f"step {step.kind}", replace(advice, steps=others)
        for part, fewer in without_a_part(step):
            changed = (*advice.steps[:index], fewer, *advice.steps[index + 1 :])
            yield f"{part} of step {step.kind}", replace(advice, steps=changed)
    if advice.kind == "add nodes" and advice.count > 1 and not advice.is_most:
        yield "one node", replace(advice, count=advice.count - 1)
    if advice.kind in ("back", "label") or (advice.kind == "ends" and len(advice.names) <= PAIR):
        yield from _without_a_name(advice)
    if advice.kind in ("raise", "released", "is free"):
        yield from _without_amounts(advice)
    for index, (what, name, _) in enumerate(advice.parts):
        fewer_parts = (*advice.parts[:index], *advice.parts[index + 1 :])
        yield f"{what} {name}", replace(advice, parts=fewer_parts)
    if advice.kind == "fields" and len(advice.fields) > 1:
        for index, field in enumerate(advice.fields):
            yield field, replace(advice, fields=(*advice.fields[:index], *advice.fields[index + 1 :]))


def _without_a_name(advice: Advice) -> Iterator[tuple[str, Advice]]:
    for index, name in enumerate(advice.names if len(advice.names) > 1 else ()):
        yield name, replace(advice, names=(*advice.names[:index], *advice.names[index + 1 :]))


def _without_amounts(advice: Advice) -> Iterator[tuple[str, Advice]]:
    """Without one resource of one limit or node."""
    for index, (name, amounts) in enumerate(zip(advice.names, advice.amounts, strict=True)):
        for resource in amounts if len(advice.names) > 1 or len(amounts) > 1 else ():
            fewer = {key: amount for key, amount in amounts.items() if key != resource}
            changed = (*advice.amounts[:index], fewer, *advice.amounts[index + 1 :])
            yield f"{resource} of {name}", replace(advice, amounts=changed)
