"""No text that leaves the scheduler has a control character, whatever names tenants choose."""

from hypothesis import given
from hypothesis import strategies as st
from phalanx.kube.api_fields import message_text
from phalanx.model.names import GangId
from phalanx.model.reasons import Evidence, Reason, Verdict, in_plain_text
from phalanx.model.texts import printable

from tests.examples import holds

TEXTS = st.text(st.characters() | st.sampled_from("\x1b\x07\x00\n\x7f\x9b\u202e\u2028\ud800\\"))


def has_controls(text: str) -> bool:
    """C0, DEL and C1, line separators, directions, lone surrogates."""
    return any(
        ord(char) < 0x20
        or 0x7F <= ord(char) < 0xA0
        or 0x200B <= ord(char) <= 0x200F
        or 0x2028 <= ord(char) <= 0x202E
        or 0xD800 <= ord(char) < 0xE000
        for char in text
    )


@holds(200)
@given(TEXTS)
def test_texts_are_escaped_once(text: str) -> None:
    shown = printable(text)
    assert not has_controls(shown)
    assert printable(shown) == shown
    assert shown == text or any(not char.isprintable() for char in text)


@holds(100)
@given(TEXTS, st.integers(10, 60))
def test_messages_of_the_api_are_escaped_and_of_bounded_size(text: str, limit: int) -> None:
    shown = message_text(text, limit)
    assert not has_controls(shown)
    assert len(shown.encode()) <= limit


@holds(100)
@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_all_texts_of_a_verdict_are_escaped(
    group: str, message: str, subject: str, found: str, step: str
) -> None:
    verdict = Verdict(
        GangId("g"), group, Reason.QUEUE_NOT_FOUND, message, (Evidence(subject, found, 3),), step
    )
    shown = in_plain_text(verdict)
    texts = [shown.group, shown.message, shown.next_step]
    texts += [text for each in shown.evidence for text in (each.subject, each.finding)]
    assert not any(map(has_controls, texts))
    assert shown.evidence[0].count == 3
