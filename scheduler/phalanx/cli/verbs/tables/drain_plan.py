"""A drain plan as a table."""

from collections.abc import Iterator, Sequence

from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import names
from phalanx.cli.verbs.printing import BAD, DIM, WARN, Cell, Format, Line, Span, columns, line
from phalanx.cli.verbs.views.drain_plan import DrainPlan, DrainStep

_HOUR = 3600
_HEADER = ("STEP", "NODE", "STOPS", "LOSES PODS", "LOST DEVICE H", "ATTENTION")


def drain_plan_lines(plan: DrainPlan, how: Format) -> list[Line]:
    """A line for each step, and the stops in all."""
    rows = (_cells(place, step, how) for place, step in enumerate(plan.steps, start=1))
    total = f"{count(plan.stops, 'stop')} of gangs in all; every order has at least {plan.stops_at_least}"
    back = "is back before the next one" if plan.returns else "does not come back"
    return [*columns(_HEADER, rows), line(Span(f"{total}. A drained node {back}.", DIM))]


def _cells(place: int, step: DrainStep, how: Format) -> Sequence[Cell]:
    attention = "; ".join(_attention(step, how))
    return (
        str(place),
        step.node,
        Span(names(step.stops, is_wide=how.is_wide) or "-", WARN if step.stops else ""),
        names(step.loses_pods, is_wide=how.is_wide) or "-",
        f"{step.lost_device_seconds / _HOUR:.1f}",
        Span(attention or "-", BAD if attention else ""),
    )


def _attention(step: DrainStep, how: Format) -> Iterator[str]:
    for found, what in (
        (step.no_capacity, "no capacity elsewhere"),
        (step.protected, "protected by a PodDisruptionBudget"),
        (step.no_controller, "not created again"),
    ):
        if found:
            yield f"{what}: {names(found, is_wide=how.is_wide)}"
