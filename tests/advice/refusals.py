"""Decides about random clusters, follows the advice of each verdict, and decides again."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster, run_until_stable
from phalanx.cycle import Engine
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.limits import DECIDE_CYCLES_MAX
from phalanx.model.decisions import CycleResult
from phalanx.model.reasons import Verdict

from tests.advice.clusters import ASKER, Document, random_cluster
from tests.advice.following import followed, is_asking, is_placed
from tests.advice.parts import without_a_part
from tests.advice.quantities import NotFollowable
from tests.advice.reading import Advice, Unreadable, advice_of

CONFIG: Final = SchedulerConfig()
WITHOUT_EVICTIONS: Final = SchedulerConfig(actions=(ActionName.RELEASE, ActionName.RECOVER))
"""An advice must let the gang start without evictions for it."""

FOUND_BEFORE: Final = ("UnsupportedField",)
"""Reasons that are found before a gang is tried. Their next step removes this obstacle; others may show."""

_GROUPS: Final = (f"default/{ASKER}", f"default/{ASKER}-0")


SAME_CLUSTERS: Final = 64
"""Clusters that are kept with the answer: a case asks the same question several times."""


class Refusal(Struct, frozen=True):
    """A cluster in which the asker waits, with its verdict. No other gang waits there."""

    seed: int
    documents: tuple[Document, ...]
    verdict: Verdict

    @property
    def ending(self) -> tuple[str, ...]:
        """The holders whose end the evidence names."""
        return tuple(
            evidence.subject
            for evidence in self.verdict.evidence
            if evidence.finding.endswith("when it ends")
        )


class Trial(Struct, frozen=True):
    """An advice that was followed."""

    refusal: Refusal
    text: str
    advice: Advice | None
    problem: str = ""
    """Why it does not hold; empty if members of the asker got nodes."""


def refusal_of(seed: int) -> Refusal | None:
    """The refusal in the random cluster of this seed; None if the asker is placed."""
    documents = random_cluster(seed)
    results = decided(documents)
    verdict = verdict_of(results)
    if verdict is None:
        return None
    return Refusal(seed, tuple(settled(documents, results)), verdict)


def verdict_of(results: Sequence[CycleResult]) -> Verdict | None:
    """The last verdict on the asker."""
    return next((verdict for verdict in results[-1].verdicts if verdict.group in _GROUPS), None)


def decided(documents: Sequence[Document], config: SchedulerConfig = CONFIG) -> tuple[CycleResult, ...]:
    """The cycles that `phalanx decide` runs on these manifests."""
    return run_until_stable(_cluster(_as_list(documents), config), config)[0]


def _as_list(documents: Sequence[Document]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def _cluster(text: str, config: SchedulerConfig) -> StaticCluster:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        manifests = read_manifests([str(Path(file.name))])
    now = int(manifests.latest.timestamp() * 1000)
    return StaticCluster(manifests.objects, config=config, now=now)


def settled(documents: Sequence[Document], results: Sequence[CycleResult]) -> Iterator[Document]:
    """The manifests after these cycles, without other gangs that wait."""
    nodes = {
        bind.name: bind.node
        for result in results
        for placement in result.placements
        for bind in placement.binds
    }
    gone = {eviction.name for result in results for eviction in result.evictions}
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] != "Pod" or (is_placed(document) and name not in gone):
            yield document
        elif name in nodes and name not in gone:
            spec = {**document["spec"], "nodeName": nodes[name]}
            yield {**document, "spec": spec, "status": {"phase": "Running"}}
        elif is_asking(document) and name not in gone:
            yield document


def emptied(documents: Sequence[Document]) -> list[Document]:
    """The manifests after all other pods have ended, those of DaemonSets too."""
    return [document for document in documents if document["kind"] != "Pod" or is_asking(document)]


def is_helped(documents: Sequence[Document]) -> bool:
    """Whether members of the asker get nodes without evictions."""
    return _is_helped(_as_list(documents))


@lru_cache(maxsize=SAME_CLUSTERS)
def _is_helped(text: str) -> bool:
    """Without verdicts on what would help instead."""
    cluster = _cluster(text, WITHOUT_EVICTIONS)
    engine = Engine(WITHOUT_EVICTIONS, defers_advice=True)
    for _ in range(DECIDE_CYCLES_MAX):
        before = cluster.memory
        result = engine.decide(cluster.snapshot())
        cluster.apply(result)
        binds = [bind for placement in result.placements for bind in placement.binds]
        if any(bind.name.startswith(f"{ASKER}-") for bind in binds):
            return True
        if not binds and replace(result.memory, cycle=before.cycle) == before:
            return False
    return False


def is_tried(documents: Sequence[Document]) -> bool:
    """Whether the asker is tried: it is placed, or its reason is not one that is found before."""
    verdict = verdict_of(decided(documents, WITHOUT_EVICTIONS))
    return verdict is None or verdict.reason not in FOUND_BEFORE


def trials(refusal: Refusal) -> list[Trial]:
    """Follow each advice of the verdict."""
    try:
        advices = advice_of(refusal.verdict.next_step)
    except Unreadable as error:
        return [Trial(refusal, refusal.verdict.next_step, None, f"unreadable: {error}")]
    return [
        Trial(refusal, refusal.verdict.next_step, advice, _problem(refusal, advice)) for advice in advices
    ]


def needless_parts(refusal: Refusal, advice: Advice) -> list[str]:
    """The parts without which the advice is enough too."""
    fewer = without_a_part(advice)
    return [part for part, changed in fewer if _is_enough(refusal, changed)]


def _is_enough(refusal: Refusal, advice: Advice) -> bool:
    try:
        return not _problem(refusal, advice)
    except BadInput:  # the API server would not accept it
        return False


def _problem(refusal: Refusal, advice: Advice) -> str:
    try:
        documents = followed(refusal.documents, advice, refusal.ending, refusal.seed)
    except NotFollowable as error:
        return f"not followable: {error}"
    has_helped = is_tried if refusal.verdict.reason in FOUND_BEFORE else is_helped
    return "" if has_helped(documents) else "does not help"
