"""Which reasons of verdicts ask cluster autoscalers for nodes: the table in the code and on the page."""

import re
from pathlib import Path

from phalanx.model.pod_conditions import CAUSES, NewNodes
from phalanx.model.reasons import UNSCHEDULABLE, Reason

PAGE = Path(__file__).resolve().parents[2] / "docs" / "autoscalers.md"


def test_every_reason_is_in_the_table() -> None:
    assert set(CAUSES) == set(Reason)


def test_only_unschedulable_asks_for_nodes() -> None:
    assert [effect.value for effect in NewNodes if effect.value == UNSCHEDULABLE] == [NewNodes.HELP.value]


def test_the_page_has_the_same_table() -> None:
    written: dict[str, tuple[str, str]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and cells[1].startswith("`"):
            cause, reasons, condition = cells
            written |= {reason: (cause, condition.strip("` |")) for reason in re.findall(r"`(\w+)`", reasons)}
    assert written == {reason.value: (cause, effect.value) for reason, (cause, effect) in CAUSES.items()}
