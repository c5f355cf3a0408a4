"""The plots of a study as SVG. Needs matplotlib, the optional extra `lab`.

The same results give the same bytes.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx_simulator.lab.engine.outcome import SIZES
from phalanx_simulator.lab.report.results import VariantResult, printable

_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "phalanx",
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""Text stays text; a name with dollar signs is no formula."""

_WIDE: Final = (9.0, 3.4)
_HOUR_S: Final = 3600


class Plot(Struct, frozen=True):
    """A drawn plot: its title, what it shows in words, and the SVG."""

    title: str
    description: str
    svg: str


def plots_of(variants: Sequence[VariantResult]) -> Iterator[Plot]:
    """Waits by size, all waits, use over time, waiting GPUs, shares of queues."""
    variants = [replace(each, name=_label(each.name)) for each in variants]
    names = ", ".join(each.name for each in variants)
    for title, description, draw in (
        ("Mean wait by size of job", "Bars of the mean wait in hours, by GPUs of the job", _waits),
        ("Distribution of waits", "Which part of the jobs waited at most so long", _distribution),
        ("GPUs in use", "The share of the GPUs that pods hold, over the days", _use),
        ("GPUs waited for", "GPUs of jobs that wait, over the days", _waiting),
        ("Shares of queues", "GPU time that each queue held, divided by its fair share", _shares),
    ):
        with _figure() as (figure, axes):
            draw(axes, variants)
            yield Plot(title, f"{description}. Variants: {names}", _svg(figure))


@contextmanager
def _figure() -> Iterator[tuple[Any, Any]]:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(figsize=_WIDE, layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.subplots()


def _label(name: str) -> str:
    """A legend leaves out labels that begin with an underscore."""
    shown = printable(name)
    return f" {shown}" if shown.startswith("_") else shown


def _svg(figure: Any) -> str:
    """Texts stay texts, so that a glyph which the font here lacks is no problem."""
    out = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _waits(axes: Any, variants: Sequence[VariantResult]) -> None:
    sizes = [name for name, _ in SIZES if any(name in each.outcome.waits for each in variants)]
    _bars(axes, variants, sizes, lambda each, size: _mean_hours(each, size))
    axes.set_xlabel("GPUs of the job")
    axes.set_ylabel("mean wait, hours")


def _mean_hours(variant: VariantResult, size: str) -> float:
    waits = variant.outcome.waits.get(size)
    return waits.mean_s / _HOUR_S if waits else 0.0


def _shares(axes: Any, variants: Sequence[VariantResult]) -> None:
    tenants = [
        name
        for name in variants[0].outcome.tenants
        if any(each.outcome.tenants[name].share is not None for each in variants)
    ]
    _bars(axes, variants, tenants, lambda each, name: each.outcome.tenants[name].share or 0.0)
    axes.axhline(1, color="gray", linewidth=0.8)
    axes.set_ylabel("share of the fair share")
    axes.tick_params("x", rotation=90 if len(tenants) > 8 else 0)


def _bars(
    axes: Any,
    variants: Sequence[VariantResult],
    groups: Sequence[str],
    height: Callable[[VariantResult, str], float],
) -> None:
    width = 0.8 / len(variants)
    for index, each in enumerate(variants):
        places = [place + (index - (len(variants) - 1) / 2) * width for place in range(len(groups))]
        axes.bar(places, [height(each, group) for group in groups], width, label=each.name)
    axes.set_xticks(range(len(groups)), groups)
    axes.legend(frameon=False)


def _distribution(axes: Any, variants: Sequence[VariantResult]) -> None:
    for each in variants:
        waits = [wait / _HOUR_S for wait in each.outcome.wait_quantiles]
        axes.step(waits, range(len(waits)), where="post", label=each.name)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")  # the default one needs parsed formulas
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    axes.set_xlabel("wait, hours")
    axes.set_ylabel("% of the jobs that waited at most so long")
    axes.legend(frameon=False, loc="lower right")


def _use(axes: Any, variants: Sequence[VariantResult]) -> None:
    for each in variants:
        _line(axes, each, [100 * held / each.gpus for held in each.outcome.timeline.held])
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of the GPUs in use")
    axes.legend(frameon=False, loc="lower right")


def _waiting(axes: Any, variants: Sequence[VariantResult]) -> None:
    for each in variants:
        _line(axes, each, each.outcome.timeline.waiting)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GPUs of waiting jobs")
    axes.legend(frameon=False)


def _line(axes: Any, variant: VariantResult, values: Sequence[float]) -> None:
    """Values of the steps at their middle, by day."""
    days = variant.outcome.timeline.step_s / (24 * _HOUR_S)
    axes.plot([(step + 0.5) * days for step in range(len(values))], values, linewidth=1, label=variant.name)
    axes.set_xlabel("day")
