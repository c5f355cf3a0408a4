"""Random full clusters on which a gang of high priority waits, and what is said of its victims."""

import random
import re

from tests.certificates.cases import add_if_it_fits, clusters
from tests.certificates.cluster import CPU, GPU, Case, Gang, Kind, Pod
from tests.certificates.compare import Checked, cycles_of
from tests.certificates.victims import Choices, Unit, cost_of, losses_of, units_of

TEXT = re.compile(r"(\d+) victims?; cost (\d+), (?:(proven) optimal|not proven optimal|lower bound (\d+))")


def drawn(seed: int) -> Case:
    """The case of a seed; the gang `urgent` waits."""
    rng = random.Random(seed)
    levels, nodes = clusters(rng, 4)
    found: list[Pod] = []
    gangs = []
    for number in range(rng.randint(2, 6)):
        name = f"g{number}"
        kind = _kind(rng)
        for index in range(rng.choice((1, 1, 2, 3))):
            node = rng.choice(nodes)
            add_if_it_fits(found, nodes, node, Pod(f"{name}-{index}", kind, name, node.name))
        count = sum(pod.gang == name for pod in found)
        if count:
            least = count if rng.random() < 0.6 else rng.randint(1, count)
            priority = rng.choice((0, 0, 10, 20, 200))
            gangs.append(Gang(name, least, started=True, priority=priority))
    pods: list[Pod] = []
    for _ in range(rng.choice((1, 1, 2))):
        kind = _kind(rng)
        pods += [Pod(f"urgent-{len(pods) + index}", kind, "urgent") for index in range(rng.randint(1, 2))]
    required = {"required": levels[-1][0]} if rng.random() < 0.4 else {}
    urgent = Gang("urgent", len(pods), **required, priority=100)
    limit = {GPU: rng.randint(2, 10)} if rng.random() < 0.25 else {}
    return Case(levels, nodes, (*gangs, urgent), (*found, *pods), limit)


def _kind(rng: random.Random) -> Kind:
    cores = ((CPU, 1000 * rng.randint(1, 3)),) if rng.random() < 0.4 else ()
    return Kind((*cores, (GPU, rng.choice((1, 1, 2)))))


def checked(case: Case) -> list[Checked]:
    """Compare the evictions of the first cycle, and what the verdict says of them, with all others."""
    urgent = case.gangs[-1]
    (first, *_) = cycles_of(case)
    evicted = {evict.name for evict in first.evictions}
    if any(placement.group == "team/urgent" for placement in first.placements):
        return []
    choices = Choices(case, urgent)
    if not evicted:
        return [_wrong("nothing is evicted, although it would help")] if choices.sets else []
    chosen = tuple(unit for unit in units_of(case, urgent) if evicted.issuperset(p.name for p in unit.pods))
    if {pod.name for unit in chosen for pod in unit.pods} != evicted or chosen not in choices.sets:
        return [_wrong("the choice is not possible")]
    verdict = next(verdict for verdict in first.verdicts if verdict.group == "team/urgent")
    text = next(item.finding for item in verdict.evidence if item.subject == "choice of victims")
    return [_claims(text, chosen, choices)]


def _wrong(error: str) -> Checked:
    return Checked((error,), proven=False, optimal=False, compared=0)


def _claims(text: str, chosen: tuple[Unit, ...], choices: Choices) -> Checked:
    claim, best = TEXT.search(text), min(losses_of(units) for units in choices.sets)
    if claim is None:
        return _wrong(f"not understood: {text}")
    count, cost, is_proven, bound = int(claim[1]), int(claim[2]), bool(claim[3]), int(claim[4] or 0)
    is_best = losses_of(chosen) == best
    is_right = count == len(chosen) and cost == cost_of(chosen) and (is_best or not is_proven)
    is_right = is_right and all(bound <= cost_of(units) for units in choices.sets)
    wrong = (f"{text}: the cost is {cost_of(chosen)}, the losses {losses_of(chosen)}, {best} is possible",)
    return Checked(() if is_right else wrong, is_proven, is_best, len(choices.sets))
