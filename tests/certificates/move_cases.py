"""Random fragmented clusters on which a gang waits, and the comparison of what is said of moves."""

import random
import re

from msgspec import structs
from phalanx.framework.config import ActionName, ConsolidationConfig, SchedulerConfig

from tests.certificates.cases import add_if_it_fits, clusters
from tests.certificates.cluster import CPU, GPU, Case, Gang, Kind, Pod
from tests.certificates.compare import Checked, cycles_of
from tests.certificates.moves import Plans
from tests.certificates.victims import cost_of

CLAIM = re.compile(
    r"the gang fits if (\d+) pods? of (\d+) gangs? move; "
    r"(?:at least (\d+) pods? must move \(lower bound\)|"
    r"fewest pods; cost (\d+), (?:(proven) optimal|lower bound (\d+)))"
)

MINUTES = 90
"""How long everything has run."""

CONFIG = SchedulerConfig(
    actions=(ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT),
    consolidation=ConsolidationConfig(dry_run=True),
)


def drawn(seed: int) -> Case:
    """The case of a seed; the gang `waiting` does not fit, or fits at once."""
    rng = random.Random(seed)
    levels, nodes = clusters(rng, 4)
    nodes = tuple(structs.replace(node, allocatable={**node.allocatable, GPU: 4}) for node in nodes)
    found: list[Pod] = []
    gangs = []
    for number in range(rng.randint(3, 5)):
        name, kind = f"g{number}", _kind(rng)
        first = rng.choice(nodes)
        racks = [node for node in nodes if node.labels.get(levels[-1][1]) == first.labels.get(levels[-1][1])]
        is_required = rng.random() < 0.3 and all(label in first.labels for _, label in levels)
        for index in range(rng.choice((1, 1, 2))):
            node = rng.choice(racks) if is_required else rng.choice(nodes)
            add_if_it_fits(found, nodes, node, Pod(f"{name}-{index}", kind, name, node.name))
        count = sum(pod.gang == name for pod in found)
        if count:
            required = levels[0][0] if is_required else ""
            priority = rng.choice((0, 0, 0, 20))
            gangs.append(Gang(name, count, required=required, started=True, priority=priority))
    kind = Kind(((GPU, rng.randint(2, 4)),))
    pods = [Pod(f"waiting-{index}", kind, "waiting") for index in range(rng.choice((1, 1, 2)))]
    required = levels[-1][0] if rng.random() < 0.5 else ""
    gangs.append(Gang("waiting", len(pods), required=required))
    return Case(levels, nodes, tuple(gangs), (*found, *pods))


def _kind(rng: random.Random) -> Kind:
    cores = ((CPU, 1000 * rng.randint(1, 3)),) if rng.random() < 0.3 else ()
    return Kind((*cores, (GPU, rng.choice((1, 1, 2)))))


def checked(case: Case) -> list[Checked]:
    """Compare what the verdict of the first cycle says of moves with every other plan."""
    (first, *_) = cycles_of(case, CONFIG, minutes=MINUTES)
    if any(placement.group == "team/waiting" for placement in first.placements):
        return []
    verdict = next(verdict for verdict in first.verdicts if verdict.group == "team/waiting")
    text = next((item.finding for item in verdict.evidence if item.subject == "dry run of moves"), "")
    return [_compared(text, Plans(case, case.gangs[-1]))] if text else []


def _compared(text: str, plans: Plans) -> Checked:
    claim = CLAIM.fullmatch(text)
    if claim is None or not plans.sets:
        return Checked((f"not possible or not understood: {text}",), False, False, 0)
    pods = {moved: sum(len(unit.pods) for unit in moved) for moved in plans.sets}
    fewest = min(pods.values())
    cheapest = min(cost_of(moved, MINUTES) for moved in plans.sets if pods[moved] == fewest)
    count, bound, cost = int(claim[1]), int(claim[3] or claim[1]), int(claim[4] or 0)
    is_right = bound <= fewest <= count and (not cost or int(claim[6] or cost) <= cheapest <= cost)
    wrong = f"{text}: {fewest} pods and a cost of {cheapest} are enough"
    best = (count, cost) == (fewest, cheapest)
    return Checked(() if is_right else (wrong,), bool(claim[5]), best, len(plans.sets))
