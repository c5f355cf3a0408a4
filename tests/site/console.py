"""Plays the pages of tutorials: writes their files, runs their commands, compares what they print."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

COMMAND_TIMEOUT_S = 180

_BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(yaml|console)\n(.*?)```", re.DOTALL)
_AGE = re.compile(r"\b(?:\d+[smhd])+\b")
_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""What the API server and the Job controller append to names of pods."""


class File(Struct, frozen=True):
    """A file that the page shows."""

    name: str
    text: str


class Command(Struct, frozen=True):
    """A command, and what the page shows as its output."""

    line: str
    output: str


def steps(page: str) -> Iterator[File | Command]:
    """The named files and the commands of a page, in order."""
    for name, language, text in _BLOCK.findall(page):
        if language == "yaml" and name:
            yield File(name, text)
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield Command(line, output)


def run(command: Command, folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints on standard output and standard error."""
    done = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return done.stdout


def comparable(output: str) -> str:
    """Output without ages, random names of pods, and the spaces that align them."""
    lines = _SUFFIX.sub("-xxxxx", _AGE.sub("AGE", output)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)
