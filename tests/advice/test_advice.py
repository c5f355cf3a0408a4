"""Every advice of every verdict helps, and reasons name what prevents the start.

Random clusters are decided, each advice is followed in the manifests as docs/reasons.md says, and the result
is decided again. `python -m bench.advice` does the same for more seeds.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from phalanx.model.reasons import Reason

from tests.advice.obstacles import contradiction
from tests.advice.parts import without_a_part
from tests.advice.reading import ACTIONS, EVENTS, Unreadable, advice_of
from tests.advice.refusals import Refusal, needless_parts, refusal_of, trials
from tests.examples import examples

WITH_OTHER_MEMBERS = (100_078, 100_151, 100_246, 100_384, 100_466, 100_486, 100_557)
"""After less than lets the first members of the gang fit, others can start."""

NOT_MONOTONE = (601_760, 601_882)
"""Without one part another is not needed either: a toleration adds nodes to a spread. The end of running work
ends the pods that affinity selects."""

OTHER_DEMANDS = (600_243, 600_392, 602_130, 602_429, 602_613, 700_527)
"""After less than lets the refused members fit, others of the gang are tried and fit."""

UNFIT_BEFORE = (601_773,)
"""Members that no node can take are members to start with once a field is removed."""

SMALLER_MINIMUM = (601_045,)
"""Other members reach a lower minimum now than in the empty cluster."""

TWO_FAULTS = (600_018, 600_971)
"""A node is cordoned and faulty."""

LIMITS_OF_ANOTHER = (700_914, 701_241)
"""Several actions together let other members of the gang start, which need other limits to be raised."""

OTHER_FIELDS = (700_975,)
"""Without one field other members start."""

LATER_SUBGROUPS = (715_388, 815_078)
"""Of several subgroups that would start later, the first one does not fit the empty cluster, another does. A
member of a subgroup that has started goes before them."""

WITHOUT_LABEL = (715_191,)
"""Nodes like one that lacks a label lack it too."""

NEAR_ANOTHER = (740_140,)
"""Members of a subgroup start only near those of another one."""

COUNTED_BY_SPREAD = (740_267, 770_306)
"""A pod that the affinity of the gang selects is one that its spread constraints count."""

MANY_ACTIONS = (900_297, 1_009_140, 2_000_710, 2_013_455)
"""The search for single actions takes many solves; that for several together has as many again, and so has
what leaves needless fields out, and what finds amounts."""

SEGMENTS = (920_191,)
"""A lower minimum of a subgroup with segments is a multiple of their size."""

SPREAD_BESIDE_WORK = (910_254,)
"""A spread constraint counts running pods on a tainted node: fewer added nodes are enough beside them."""

OTHERS_OF_A_SUBGROUP = (1_003_298, 2_008_537)
"""A lower minimum of the gang lets other members start, so that of no subgroup must be lower."""

WHOLE_SUBGROUP = (1_007_600,)
"""Pods of other schedulers are the minimum of a subgroup: to start with it alone places nothing."""

APART_FROM_OTHERS = (2_011_186,)
"""A Job of another scheduler repels members of the gang: its end helps by more than its capacity."""

ADDED_BESIDE_WORK = (4_003_969,)
"""Added nodes help at once: the trial needs no capacity of domains that they are not counted in."""

LEVEL_REMOVED_AT_ONCE = (4_003_886,)
"""Without the level the gang starts at once; with the label on the fewest nodes it waits until work ends."""

LABEL_OF_AFFINITY = (5_012_440,)
"""Pod affinity needs the label of a level: to remove the level does not help."""

SEEDS = (
    *range(examples(50)),
    *WITH_OTHER_MEMBERS,
    *NOT_MONOTONE,
    *OTHER_DEMANDS,
    *UNFIT_BEFORE,
    *SMALLER_MINIMUM,
    *TWO_FAULTS,
    *LIMITS_OF_ANOTHER,
    *OTHER_FIELDS,
    *LATER_SUBGROUPS,
    *WITHOUT_LABEL,
    *NEAR_ANOTHER,
    *COUNTED_BY_SPREAD,
    *MANY_ACTIONS,
    *WHOLE_SUBGROUP,
    *OTHERS_OF_A_SUBGROUP,
    *SEGMENTS,
    *SPREAD_BESIDE_WORK,
    *APART_FROM_OTHERS,
    *ADDED_BESIDE_WORK,
    *LEVEL_REMOVED_AT_ONCE,
    *LABEL_OF_AFFINITY,
)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reasons.md"

pytestmark = [pytest.mark.properties, pytest.mark.xdist_group("advice")]
"""One process makes the refusals."""


@cache
def refusals() -> list[Refusal]:
    return [refusal for seed in SEEDS if (refusal := refusal_of(seed)) is not None]


def test_every_advice_helps() -> None:
    followed = [trial for refusal in refusals() for trial in trials(refusal)]
    assert followed
    assert [(trial.refusal.seed, trial.text, trial.problem) for trial in followed if trial.problem] == []


def test_every_part_of_an_advice_is_needed() -> None:
    advices = [(refusal, advice) for refusal in refusals() for advice in advice_of(refusal.verdict.next_step)]
    assert any(True for _, advice in advices for _ in without_a_part(advice)) or len(SEEDS) < 50
    found = [(refusal.seed, advice.kind, needless_parts(refusal, advice)) for refusal, advice in advices]
    assert [(seed, kind, parts) for seed, kind, parts in found if parts] == []


def test_a_gang_is_explained_where_only_other_members_fit_the_empty_cluster() -> None:
    refusal = refusal_of(20_119)
    assert refusal is not None
    assert refusal.verdict.reason is Reason.QUEUE_LIMIT


def test_nearly_every_refusal_has_an_advice_that_a_user_can_follow() -> None:
    """The end of all running work is no such advice."""
    with_advice = [
        refusal
        for refusal in refusals()
        if any(advice.kind != "all end" for advice in advice_of(refusal.verdict.next_step))
    ]
    assert len(with_advice) >= 0.95 * len(refusals())


def test_a_reason_names_the_first_obstacle_without_which_the_gang_fits() -> None:
    found = [(each.seed, contradiction(each)) for each in refusals()]
    assert [(seed, problem) for seed, problem in found if problem] == []


def test_the_page_describes_every_kind_of_advice_in_a_form_that_is_read() -> None:
    texts = list(_texts_of_the_page())
    read = {
        pattern for pattern, _ in (*EVENTS, *ACTIONS) if any(re.fullmatch(pattern, text) for text in texts)
    }
    assert read == {pattern for pattern, _ in (*EVENTS, *ACTIONS)}


def _texts_of_the_page() -> Iterator[str]:
    """The texts in the first column of the tables of advice."""
    section = PAGE.read_text().partition("## What a next step means")[2]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


@pytest.mark.parametrize("text", ["Wait until the moon is full", "Buy more nodes, or wait"])
def test_a_text_that_the_page_does_not_describe_is_an_error(text: str) -> None:
    with pytest.raises(Unreadable):
        advice_of(text)


def test_what_promises_nothing_is_no_advice() -> None:
    assert advice_of("No single change was found that is enough; see the evidence") == []
