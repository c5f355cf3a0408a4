"""Runs `phalanx decide` on a case and compares every certificate with the search over all placements."""

import json
import tempfile
from collections.abc import Iterator, Sequence

from msgspec import Struct
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import Certificate, CycleResult, Placement

from tests.certificates.cluster import Case, Gang, Located, Pod, Situation, inside, manifests
from tests.certificates.search import placements, respects_rules
from tests.certificates.terms import Step, Terms

CONFIG = SchedulerConfig()
LAST = ("tightness:", "subgroup-tightness:", "fragments")


class Checked(Struct, frozen=True):
    """One certificate: what is wrong with it, if anything."""

    errors: tuple[str, ...]
    proven: bool
    optimal: bool
    """Whether no placement is better, proven or not."""
    compared: int
    """The number of possible placements."""


def cycles_of(case: Case, config: SchedulerConfig = CONFIG, *, minutes: int = 0) -> tuple[CycleResult, ...]:
    """The results of all cycles, so many minutes after the start of everything that runs."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(manifests(case), file)
        file.flush()
        read = read_manifests([file.name])
    cluster = StaticCluster(
        read.objects, config=config, now=int(read.latest.timestamp() + 60 * minutes) * 1000
    )
    results, _ = run_until_stable(cluster, config)
    assert not [error for result in results for error in result.stats.errors]
    return results


def decided(case: Case) -> list[list[Placement]]:
    """The placements of each cycle, in their order."""
    results = cycles_of(case)
    assert not [evict for result in results for evict in result.evictions]
    return [list(result.placements) for result in results]


def checked(case: Case) -> list[Checked]:
    """Every certificate of the case; a gang that waits although it fits is an error too."""
    situation, found = Situation(case), []
    gangs = {f"team/{gang.name}": gang for gang in case.gangs}
    tried: set[str] = set()
    for placements_of_cycle in decided(case):
        placed = [_located(case, placement) for placement in placements_of_cycle]
        start = situation
        for number, (placement, here) in enumerate(zip(placements_of_cycle, placed, strict=True)):
            gang = gangs.get(placement.group) or Gang(placement.group, 1)
            others = [one for index, row in enumerate(placed) if index != number for one in row]
            is_joint = _is_joint(case, gang, placement)
            before = start.after(others) if is_joint else situation
            step = _step(before, gang, placement.cause, [one.pod for one in here])
            if gang.reserves:
                return [*found, _reserving(step, placement)]
            found.append(_compared(step, here, placement, is_joint=is_joint))
            situation = situation.after(here)
            tried.add(gang.name)
    return found + [
        _waiting(situation, gang)
        for gang in case.gangs
        if gang.name not in tried and not gang.started and len(case.gangs) == 1
    ]


def _located(case: Case, placement: Placement) -> list[Located]:
    pods = {pod.name: pod for pod in case.pods}
    return [
        Located(pods[bind.name], bind.node, bind.device.index if bind.device else None)
        for bind in placement.binds
    ]


def _is_joint(case: Case, gang: Gang, placement: Placement) -> bool:
    """Whether the gang was admitted jointly: its last term would apply, and is missing."""
    is_single = case.objective == "LeastFragmentation" and len(placement.binds) == 1
    applies = bool(gang.required or gang.preferred or is_single)
    has_term = any(term.startswith(LAST) for term in placement.certificate.terms)
    return len(case.gangs) > 1 and applies and not has_term


def _waiting(situation: Situation, gang: Gang) -> Checked:
    """A gang that did not start and needs all its pods."""
    waiting = situation.waiting(gang.name)
    if len(waiting) + situation.counted(gang.name) != gang.min_member:
        return Checked((), True, True, 0)
    count = sum(1 for _ in placements(Step(situation, gang, waiting, whole=True)))
    errors = (f"{gang.name} waits, and {count} placements are possible",) if count else ()
    return Checked(errors, True, True, count)


def _step(before: Situation, gang: Gang, cause: str, placed: Sequence[Pod]) -> Step:
    """The pods that the step is about: at the start those that were placed, later all that wait."""
    if cause == "start":
        future = [pod for pod in before.case.pods if pod.gang == gang.name and not pod.exists]
        return Step(before, gang, [*placed, *future], whole=True)
    waiting = before.waiting(gang.name)
    if gang.min_subgroups:
        *_, outer = inside(gang, placed[0].kind.subgroup)
        waiting = [pod for pod in waiting if outer in inside(gang, pod.kind.subgroup)]
        return Step(before, gang, waiting, whole=True)
    if cause == "replace":
        waiting = waiting[: max(0, gang.min_member - before.counted(gang.name))]
    return Step(before, gang, waiting, whole=False)


def _compared(step: Step, placed: Sequence[Located], placement: Placement, *, is_joint: bool) -> Checked:
    certificate = placement.certificate
    all_terms = [_without_tightness(step.terms(one), is_joint) for one in placements(step)]
    reached = _without_tightness(step.terms(placed), is_joint)
    best = min(all_terms, key=lambda terms: tuple(terms.values()), default=None)
    if best is None or reached not in all_terms or not respects_rules(step, placed):
        return Checked(("the placement is not possible",), certificate.proven, True, len(all_terms))
    errors = [*_wrong_terms(certificate.terms, reached, all_terms)]
    if not errors:
        errors += _wrong_values(certificate, reached, best)
    optimal = tuple(best.values()) == tuple(reached.values())
    return Checked(tuple(errors), certificate.proven, optimal, len(all_terms))


def _reserving(step: Step, placement: Placement) -> Checked:
    """Where members are that do not exist yet is not known: only the optimum is compared."""
    certificate, all_terms = placement.certificate, [step.terms(one) for one in placements(step)]
    best = min(all_terms, key=lambda terms: tuple(terms.values()), default=None)
    if best is None:
        return Checked(("the placement is not possible",), certificate.proven, True, 0)
    least = tuple(best[name] for name in certificate.terms)
    errors = [] if certificate.bound <= least <= certificate.objective else [f"{certificate}, best {best}"]
    return Checked(tuple(errors), certificate.proven, certificate.objective == least, len(all_terms))


def _without_tightness(terms: Terms, is_joint: bool) -> Terms:
    kept = {name: value for name, value in terms.items() if not name.startswith(LAST)}
    return kept if is_joint else terms


def _wrong_values(certificate: Certificate, reached: Terms, best: Terms) -> Iterator[str]:
    names = certificate.terms
    said = dict(zip(names, certificate.objective, strict=True))
    if any(said[name] != reached[name] for name in names):
        yield f"the objective is {reached}, not {said}"
    if certificate.bound > tuple(best[name] for name in names):
        yield f"{'proven' if certificate.proven else 'bound'} {certificate.bound}, best {best}"
    if certificate.proven != (certificate.bound == certificate.objective):
        yield "proven without a bound that equals the objective, or the reverse"


def _wrong_terms(names: Sequence[str], reached: Terms, every: Sequence[Terms]) -> Iterator[str]:
    """Terms that are not in the certificate must be 0 in all placements."""
    if [name for name in reached if name in names] != list(names):
        yield f"the terms are {list(reached)}, not {list(names)}"
    missing = [name for name in reached if name not in names]
    wrong = [name for name in missing if name != "cost" or any(terms[name] for terms in every)]
    if wrong:
        yield f"the terms {wrong} are missing"
