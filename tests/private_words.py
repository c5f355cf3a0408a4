"""Private words of this project for things that have a standard term, and the term to use instead.

The check covers identifiers, comments, docstrings, messages and pages. A word with several meanings is listed
only if every use of it would be private. `python -m tests.private_words [PATH ...]` prints every occurrence
in files and folders, in the whole checkout by default.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

INSTEAD: Final[Mapping[str, str]] = {
    "room": "capacity, free capacity; for folders: package",
    "rooms": "capacity; for folders: packages",
    "roomy": "with much free capacity",
    "seat": "assign, assignment",
    "seats": "assigned nodes, assignments",
    "seated": "assigned",
    "seating": "assignment",
    "homes": "allowed domains",
    "prey": "eviction candidates",
    "troubles": "member losses",
    "unharmed": "error isolation",
    "companions": "affinity terms",
    "neighbours": "pods by topology domain",
    "bonded": "constrained subgroup",
    "lens": "node class spec, relevant resources",
    "lenses": "node class specs",
    "likeness": "equivalence class",
    "unsettled": "inconclusive, incomplete",
    "hopeless": "known infeasible",
    "lemon": "node failure history",
    "lemons": "node failure history",
    "circumstances": "retry key",
    "daters": "the hook's name",
    "judges": "the hook's name",
    "shields": "the hook's name",
    "openers": "the hook's name",
    "agenda": "demand queue, admission order",
    "surroundings": "cluster objects",
    "mend": "fix; for decoding: lenient",
    "mends": "fixes",
    "mended": "fixed",
    "mending": "fixing",
    "blow": "injected effect",
    "blows": "injected effects",
    "crowd": "saturation load",
    "beliefs": "cached state",
    "hearing": "delayed delivery",
    "wish": "preference, request",
    "wishes": "preferences, requests",
    "wished": "requested, preferred",
    "anew": "again",
    "dearer": "costs more",
    "dearest": "most expensive",
    "spared": "protected",
    "whoever": "name the subject",
    "whomever": "name the subject",
    "whatif": "trial, relaxation",
    "befall": "happen to",
    "befallen": "affected",
    "heeds": "respects, observes",
    "heed": "respect, observe",
    "begun": "started; for evictions: unfinished",
    "standing pods": "running pods, pods by topology domain",
    "stand aside": "try_acquire",
    "hand over": "dispatch",
    "stand in": "placeholder",
    "lies in": "is in",
    "lie in": "are in",
    "tells apart": "distinguishes",
    "told apart": "distinguished",
    "is told": "is reported, is informed",
    "are told": "are reported, are informed",
    "is due": "is entitled to; for times: has expired",
    "kept room": "held capacity",
}
"""By word or phrase in lower case. Identifiers are split at underscores and capitals, so that `SeatTable` and
`stand_in` are found too."""

ALLOWED: Final = re.compile(r'\("wishes", "company", "retries"\)')
"""Phrases in which a listed word may stay: names that seed random streams, on which all simulated runs
depend."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PHRASES: Final = frozenset(phrase for phrase in INSTEAD if " " in phrase)
_LONGEST: Final = 2


def private_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the line and the word or phrase, for each private word of a text."""
    allowed = ALLOWED.sub(" ", text)
    if not _may_have_private_words(allowed):
        return
    for number, line in enumerate(allowed.splitlines(), start=1):
        words = [word.lower() for word in _WORD.findall(line)]
        for place, word in enumerate(words):
            if word in INSTEAD:
                yield number, word
            if (phrase := " ".join(words[place : place + _LONGEST])) in _PHRASES:
                yield number, phrase


def _may_have_private_words(text: str) -> bool:
    """Whether the text has a listed word, or both words of a phrase anywhere; nearly no file has."""
    words = {word.lower() for word in {*_WORD.findall(text)}}
    return not INSTEAD.keys().isdisjoint(words) or any(words.issuperset(each.split()) for each in _PHRASES)


ROOT: Final = Path(__file__).resolve().parent.parent
TEXT_FILES: Final = ("*.py", "*.md", "*.yaml", "*.toml", "Makefile")
NOT_PRODUCT: Final = (Path("tests/private_words.py"), Path("bench/results"), Path(".venv"))


def occurrences(*paths: Path) -> Iterator[str]:
    """Yield `file:line: word: what to say instead` for files and folders of the checkout."""
    for file in sorted({file for path in paths for file in _files(path)}):
        for number, word in private_words(file.read_text()):
            yield f"{file.relative_to(ROOT)}:{number}: {word}: say {INSTEAD[word]}"


def _files(path: Path) -> Iterator[Path]:
    found = [path] if path.is_file() else [file for glob in TEXT_FILES for file in path.rglob(glob)]
    for file in found:
        if not any(file.is_relative_to(ROOT / folder) for folder in NOT_PRODUCT):
            yield file


if __name__ == "__main__":
    asked = [Path(argument).resolve() for argument in sys.argv[1:]]
    print(*occurrences(*(asked or [ROOT])), sep="\n")
