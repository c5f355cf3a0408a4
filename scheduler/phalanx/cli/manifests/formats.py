"""The formats of names, labels and their keys, as the API server validates them.

Source: k8s.io/apimachinery, pkg/util/validation and pkg/api/validation.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from phalanx.cli.manifests.findings import Finding, inside, shown

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL, re.ASCII)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL_MAX: Final = 63
_SUBDOMAIN_MAX: Final = 253
_ANNOTATIONS_BYTES_MAX: Final = 1 << 18

DNS_LABEL: Final = "a name of at most 63 lower-case letters, digits and -"
DNS_SUBDOMAIN: Final = "a name such as a.b-1 of lower-case letters, digits, - and ."
PATH_SEGMENT: Final = "a name without / and %"
LABEL_KEY: Final = "a label key such as app or topology.kubernetes.io/zone"
LABEL_VALUE: Final = "a label value of at most 63 letters, digits, -, _ and ."


def is_dns_label(text: str) -> bool:
    """Whether it is a label of DNS, as in names of namespaces and containers."""
    return len(text) <= _LABEL_MAX and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether it is a subdomain of DNS, as in names of most objects."""
    return len(text) <= _SUBDOMAIN_MAX and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_path_segment(text: str) -> bool:
    """Whether it can be a part of a path, which is all that is asked of names of some kinds."""
    return text not in ("", ".", "..") and "/" not in text and "%" not in text


def is_qualified_name(text: str) -> bool:
    """Whether it is a name with an optional prefix, as keys of labels and names of resources."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= _LABEL_MAX and _QUALIFIED.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether it is empty or a valid value of a label."""
    return not text or (len(text) <= _LABEL_MAX and _QUALIFIED.fullmatch(text) is not None)


def wrong(value: Any, path: str, is_valid: Callable[[str], bool], expected: str) -> list[Finding]:
    """A finding if the text is present and not valid."""
    return [] if value is None or is_valid(value) else [Finding(path, expected, shown(value))]


def wrong_labels(labels: dict[str, str], path: str) -> list[Finding]:
    """The findings about keys and values of labels."""
    keys = [each for key in labels for each in wrong(key, path, is_qualified_name, LABEL_KEY)]
    values = [
        each
        for key, value in labels.items()
        for each in wrong(value, inside(path, key), is_label_value, LABEL_VALUE)
    ]
    return [*keys, *values]


def wrong_annotations(annotations: dict[str, str], path: str) -> list[Finding]:
    """The findings about keys of annotations, and about their size."""
    found = [
        Finding(path, LABEL_KEY, shown(key)) for key in annotations if not is_qualified_name(key.lower())
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_BYTES_MAX:
        found.append(Finding(path, f"at most {_ANNOTATIONS_BYTES_MAX} bytes", f"{size}"))
    return found
