"""Reads next steps of verdicts, as docs/reasons.md describes them, into advice that can be followed.

It shares no code with the scheduler. A text that the page does not describe is an error.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

Amounts = dict[str, str]
"""Quantities by resource."""


class Advice(Struct, frozen=True):
    """One advice. Which fields are set depends on the kind, which is the name of a table row of the page."""

    kind: str
    names: tuple[str, ...] = ()
    """Holders of capacity, nodes, or limits; to bring nodes back, such as "uncordon n1" and "repair n1"."""
    amounts: tuple[Amounts, ...] = ()
    """For each of the names."""
    level: str = ""
    subgroup: str = ""
    domain: str = ""
    count: int = 0
    parts: tuple[tuple[str, str, int], ...] = ()
    """Minimums of roles and subgroups: what, name, number."""
    fields: tuple[str, ...] = ()
    """Fields of pods to remove, and taints to tolerate; a label of nodes."""
    is_most: bool = False
    """Whether a smaller number may be enough."""
    is_later: bool = False
    """Whether all running work must end too."""
    steps: tuple["Advice", ...] = ()
    """For "together": what must be followed, all of it."""


class Unreadable(Exception):
    """The page does not describe this text."""


def advice_of(next_step: str) -> list[Advice]:
    """Every advice of a next step; empty where it promises nothing."""
    if next_step.startswith(PROMISE_NOTHING):
        return []
    if match := re.fullmatch(r"Wait until (.*?)(?:; to start now, (.*))?", next_step):
        events = [_read(event, EVENTS) for event in match[1].split(" or ")]
        return [*events, *_actions(match[2] or "")]
    found: list[Advice] = []
    for clause in (next_step[:1].lower() + next_step[1:]).split("; or "):
        actions = _actions(clause.removesuffix(AFTERWARDS))
        is_later = clause.endswith(AFTERWARDS)
        found += [replace(action, is_later=True) for action in actions] if is_later else actions
    return found


AFTERWARDS: Final = "; then wait until running work ends"

PROMISE_NOTHING: Final = (
    "No single change was found",
    "Wait: no single",
)


def _actions(text: str) -> list[Advice]:
    return [_action(action) for action in text.split(", or ") if action]


def _action(text: str) -> Advice:
    steps = tuple(_read(step, ACTIONS) for step in text.split(", and also "))
    return steps[0] if len(steps) == 1 else Advice("together", steps=steps)


def _read(text: str, forms: "Forms") -> Advice:
    for pattern, make in forms:
        if match := re.fullmatch(pattern, text):
            return make(match)
    raise Unreadable(text)


Forms = tuple[tuple[str, Callable[[re.Match[str]], Advice]], ...]


# --- events to wait for -------------------------------------------------------------------------------------


def _ends(match: re.Match[str]) -> Advice:
    """Such as "gang team/x (terminating) and pod team/y end"."""
    names = [name.removesuffix(" (terminating)") for name in match["names"].split(" and ")]
    return Advice("ends", names=tuple(names))


def _is_free(match: re.Match[str]) -> Advice:
    """Such as "4 more cpu, 1 more pod are free in rack r1 on n1 and 2 more cpu are free on n2"."""
    names: list[str] = []
    amounts: list[Amounts] = []
    for part in re.split(r" and (?=\S+ more )", match[0]):
        found = re.fullmatch(r"(.+) (?:is|are) free(?: in \S+ \S+)? on (?:each of )?(.+)", part)
        if found is None:
            raise Unreadable(part)
        for node in found[2].split(", "):
            names.append(node)
            amounts.append(_more(found[1]))
    return Advice("is free", names=tuple(names), amounts=tuple(amounts))


def _pods_fit(match: re.Match[str]) -> Advice:
    return Advice(
        "pods fit",
        level=match["level"] or "",
        domain=match["domain"] or "",
        count=int(match["count"]),
        amounts=(_more(match["least"]),),
    )


def _released(match: re.Match[str]) -> Advice:
    """Such as "2 cpu of the limit of queue q and 1 pod of the limit of queue p are released"."""
    parts = [
        part.split(" of the ", 1)
        for part in re.split(r"(?<=\S) and (?=\S+ \S+ of the |\S+ \S+, )", match["limits"])
    ]
    return Advice(
        "released",
        names=tuple(limit for _, limit in parts),
        amounts=tuple(_amounts(amounts) for amounts, _ in parts),
    )


_IN_DOMAIN: Final = r"(?: in (?P<level>\S+) (?P<domain>\S+))?"

EVENTS: Final[Forms] = (
    (r"running work ends", lambda match: Advice("all end")),
    (r"at most (?P<count>\d+) end \(.*\)", lambda match: Advice("ends", count=int(match["count"]))),
    (r"(?P<names>.+) ends?", _ends),
    (r"(?P<limits>.+ of the .+) (?:is|are) released", _released),
    (
        rf"nodes{_IN_DOMAIN} fit (?P<count>\d+) more pods? \(at least (?P<least>.+)\)",
        _pods_fit,
    ),
    (r"\S+ more .+ (?:is|are) free.* on .+", _is_free),
    (
        r"a pod that podAffinity selects runs on (?P<node>\S+)",
        lambda match: Advice("pod runs", names=(match["node"],)),
    ),
)


# --- actions ------------------------------------------------------------------------------------------------


def _raise(match: re.Match[str]) -> Advice:
    """Such as "raise the limit of queue q by 2 cpu and the limit of queue p by 1 cpu"."""
    parts = [part.rpartition(" by ") for part in match["limits"].split(" and the ")]
    return Advice(
        "raise",
        names=tuple(limit for limit, _, _ in parts),
        amounts=tuple(_amounts(amounts) for _, _, amounts in parts),
    )


def _lower(match: re.Match[str]) -> Advice:
    parts = re.findall(r"(role|subgroup) (\S+) to (\d+)", match["parts"] or "")
    return Advice(
        "lower",
        count=int(match["count"]),
        parts=tuple((what, name, int(number)) for what, name, number in parts),
    )


_OF_SUBGROUP = r"(?: for subgroup (?P<subgroup>\S+))?"

ACTIONS: Final[Forms] = (
    (
        rf"require no (?P<level>\S+){_OF_SUBGROUP}",
        lambda match: Advice("require none", level=match["level"], subgroup=match["subgroup"] or ""),
    ),
    (
        rf"require (?P<level>\S+) instead of (?P<old>\S+){_OF_SUBGROUP}",
        lambda match: Advice("require", level=match["level"], subgroup=match["subgroup"] or ""),
    ),
    (
        rf"prefer (?P<level>\S+){_OF_SUBGROUP} instead of requiring it",
        lambda match: Advice("prefer", level=match["level"], subgroup=match["subgroup"] or ""),
    ),
    (r"raise the (?P<limits>.+)", _raise),
    (r"lower (?:minMember|the label \S+ of the pods) to (?P<count>\d+)(?: \((?P<parts>.+)\))?", _lower),
    (r"give these members the same podAffinity", lambda match: Advice("same affinity")),
    (r"remove it from some of them", lambda match: Advice("less affinity")),
    (
        r"(?P<fields>(?:remove (?!level)|tolerate ).+)",
        lambda match: Advice("fields", fields=tuple(_fields(match["fields"]))),
    ),
    (
        r"uncordon or repair all (?P<count>\d+) unavailable nodes",
        lambda match: Advice("all back", count=int(match["count"])),
    ),
    (
        r"(?P<nodes>(?:uncordon|repair|wait until) (?!or ).+)",
        lambda match: Advice("back", names=tuple(_back(match["nodes"]))),
    ),
    (
        r"add (?P<most>at most )?(?P<count>\d+) nodes? like (?P<node>\S+)(?: with at least (?P<least>.+))?",
        lambda match: Advice(
            "add nodes",
            count=int(match["count"]),
            is_most=bool(match["most"]),
            names=(match["node"],),
            amounts=(_amounts(match["least"]),) if match["least"] else (),
        ),
    ),
    (
        r"label (?P<nodes>.+) with one value of (?P<label>\S+)",
        lambda match: Advice(
            "label",
            names=() if match["nodes"] == "all nodes that lack it" else tuple(match["nodes"].split(", ")),
            fields=(match["label"],),
        ),
    ),
    (
        r"remove level (?P<level>\S+) from Topology (?P<topology>\S+)",
        lambda match: Advice("remove level", level=match["level"], names=(match["topology"],)),
    ),
    (r"let the gang be preemptible", lambda match: Advice("preemptible")),
    (
        r"request at most (?P<amounts>.+) per pod",
        lambda match: Advice("request", amounts=(_amounts(match["amounts"]),)),
    ),
)


def _fields(text: str) -> Iterator[str]:
    """Such as "remove nodeSelector and tolerate team=p:NoSchedule"."""
    for part in text.split(" and "):
        yield part.removeprefix("remove ")


def _back(text: str) -> Iterator[str]:
    """Such as "uncordon n1, n2 and repair n2, n3 and wait until n4 takes pods"."""
    last = ""
    for part in re.split(r", | and ", re.sub(" takes? pods$", "", text)):
        action, _, name = part.rpartition(" ")
        last = action or last
        yield f"{last} {name}"


# --- amounts ------------------------------------------------------------------------------------------------


def _amounts(text: str) -> Amounts:
    """Such as "2 nvidia.com/gpu, 1500m cpu, 2 pods"."""
    return {_resource(name): amount for amount, name in (part.split(" ", 1) for part in text.split(", "))}


def _more(text: str) -> Amounts:
    """Such as "2 more nvidia.com/gpu, 1500m more cpu, 1 more pod"."""
    return _amounts(text.replace(" more ", " "))


def _resource(name: str) -> str:
    return "pods" if name in ("pod", "pods") else name
