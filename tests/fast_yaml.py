"""PyYAML's safe functions, in C where PyYAML was built with libyaml: about ten times as fast."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def safe_load(text: str | bytes) -> Any:
    """See yaml.safe_load."""
    return yaml.load(text, _LOADER)


def safe_load_all(text: str | bytes) -> Iterator[Any]:
    """See yaml.safe_load_all."""
    yield from yaml.load_all(text, _LOADER)


def safe_dump(document: object) -> str:
    """See yaml.safe_dump; for input of programs, since its lines may end elsewhere."""
    text: str = yaml.dump(document, Dumper=_DUMPER)
    return text


def safe_dump_all(documents: Iterable[object]) -> str:
    """See yaml.safe_dump_all; for input of programs, since its lines may end elsewhere."""
    text: str = yaml.dump_all(documents, Dumper=_DUMPER)
    return text
