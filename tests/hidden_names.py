"""No text on a gang has the name of a node, or of another gang or pod, for a tenant that may see none.

A folder whose tests decide about many clusters uses the fixture `names_are_marked`: it looks at all verdicts
and evictions of all cycles. A name in a text without its kind makes such a test fail.
"""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from phalanx.cycle import Engine
from phalanx.model.decisions import CycleResult
from phalanx.model.named_parts import shown
from phalanx.model.reasons import Verdict, with_texts
from phalanx.model.snapshot import Snapshot

_WORD: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._/]*[A-Za-z0-9])?")


def hidden(text: str) -> str:
    """The text for somebody who may see no name."""
    return shown(text, lambda _: False)


def texts_of(verdict: Verdict) -> str:
    """All texts of the verdict, as a tenant reads them that may see no name."""
    seen = with_texts(verdict.marked or verdict, hidden)
    facts = (f"{each.subject}: {each.finding}" for each in seen.evidence)
    return "\n".join((seen.message, seen.next_step, *facts))


def found_names(snapshot: Snapshot, result: CycleResult) -> Iterator[str]:
    """The texts with names in them. Nodes that are called like a word of a text do not count."""
    texts = [(each.gang, texts_of(each)) for each in result.verdicts]
    texts += [(each.gang, hidden(each.marked or each.message)) for each in result.evictions]
    names = {gang.id: {str(gang), *map(str, gang.members)} for gang in snapshot.gangs.values()}
    nodes = {str(name) for name in snapshot.nodes if not name.isalpha()}
    for own, text in texts:
        others = {name for gang, some in names.items() if gang != own for name in some}
        words = {part for word in _WORD.findall(text) for part in (word, *word.split("/"))}
        if found := words & (nodes | others - names.get(own, set())):
            yield f"{sorted(found)} in {text!r}"


@pytest.fixture
def names_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the result of every cycle of the test."""
    decide = Engine.decide

    def decide_and_look(engine: Engine, snapshot: Snapshot) -> CycleResult:
        result = decide(engine, snapshot)
        if found := list(found_names(snapshot, result)):
            pytest.fail("\n".join(found))
        return result

    monkeypatch.setattr(Engine, "decide", decide_and_look)
