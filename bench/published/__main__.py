"""`python -m bench.published`: published cases of other schedulers, played again.

Each case is played in the simulator and on a real control plane, with Phalanx and with kube-scheduler (in the
simulator with a model of it). Writes bench/results/published.json and published.md. About 25 minutes on two
cores. The real control plane is built once if Go is installed.
"""

import argparse
import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs
from phalanx.observe.logs import configure_logs

from bench.harness.machine import busy_share, this_machine
from bench.published.catalog import TOPICS, Case, Topic
from bench.published.places import OURS, Scheduler, real, simulated
from bench.published.report import Row, markdown
from bench.published.site import Played
from bench.record import record

RESULTS: Final = Path(__file__).parent.parent / "results" / "published"

Start = Callable[[Case, Scheduler], Played]


def _simulated(case: Case, scheduler: Scheduler) -> Played:
    return simulated(case.play, scheduler)


def _real(case: Case, scheduler: Scheduler) -> Played:
    return asyncio.run(real(case.play, scheduler))


PLACES: Final[dict[str, Start]] = {"simulated": _simulated, "real": _real}


def _kept(path: Path, measured: Iterable[Row]) -> list[Row]:
    """The rows of the results so far that were not measured again."""
    old = path.with_suffix(".json")
    if not old.exists():
        return []
    rows = msgspec.convert(json.loads(old.read_text())["result"], list[Row])
    again = {_key(row) for row in measured}
    return [row for row in rows if _key(row) not in again]


def _key(row: Row) -> tuple[str, ...]:
    return row.topic, row.case, row.place, row.scheduler


def _made_with() -> str:
    machine = this_machine({})
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.day}, {machine.processor}, {machine.cores} cores; {versions}"


def _row(topic: Topic, case: Case, place: str, scheduler: Scheduler) -> Row:
    print(f"{topic.name}: {case.title}, {place}, {scheduler.title} ...", file=sys.stderr, flush=True)
    busy = round(asyncio.run(busy_share()), 2) if place == "real" else 0.0
    row = Row(
        topic=topic.name,
        case=case.title,
        place=place,
        scheduler=scheduler.title,
        busy_before=busy,
        made_with=_made_with(),
    )
    try:
        played = PLACES[place](case, scheduler)
    except Exception as error:  # one cluster that cannot be played must not lose the others
        traceback.print_exception(error)
        return structs.replace(row, trouble=f"{type(error).__name__}: {error}".splitlines()[0])
    print(f"  {dict(played.figures)} {'; '.join(played.wrong)}", file=sys.stderr, flush=True)
    return structs.replace(row, figures=dict(played.figures), wrong=played.wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a case went wrong with Phalanx, or could not be played."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.published", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [topic.name for topic in TOPICS]
    only = "one topic; may be repeated. Results of what is not played stay"
    parser.add_argument("--only", action="append", choices=names, help=only)
    parser.add_argument("--case", default="", help="only cases with this text in their title")
    parser.add_argument("--place", choices=list(PLACES), help="only the simulator, or only real clusters")
    parser.add_argument("--output", type=Path, default=RESULTS, help="without a suffix")
    options = parser.parse_args(arguments)
    configure_logs(level="critical")
    topics = [topic for topic in TOPICS if not options.only or topic.name in options.only]
    rows = [
        _row(topic, case, place, scheduler)
        for topic in topics
        for case in topic.cases
        if options.case in case.title
        for place in ([options.place] if options.place else PLACES)
        for scheduler in case.schedulers
    ]
    kept = _kept(options.output, rows)
    record(options.output.with_suffix(".json"), msgspec.to_builtins([*kept, *rows]))
    options.output.with_suffix(".md").write_text(markdown(TOPICS, [*kept, *rows]))
    ours = [row for row in rows if row.scheduler == OURS.title]
    return 0 if not any(row.wrong or row.trouble for row in ours) else 1


if __name__ == "__main__":
    sys.exit(main())
