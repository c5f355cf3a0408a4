"""The formats of names, labels and their keys, as the API server validates them.

Source: k8s.io/apimachinery, pkg/util/validation and pkg/api/validation.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from phalanx.model.api.values import parse_time

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL, re.ASCII)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64: Final = range(-(1 << 63), 1 << 63)
_LABEL_MAX: Final = 63
_SUBDOMAIN_MAX: Final = 253


class Format(Struct, frozen=True):
    """A format of text: whether it holds, and how to name it in an error."""

    holds: Callable[[str], bool]
    expected: str


def is_qualified_name(text: str) -> bool:
    """Whether it is a name with an optional prefix, as keys of labels and names of resources."""
    prefix, slash, name = text.rpartition("/")
    if slash and not _is_dns_subdomain(prefix):
        return False
    return len(name) <= _LABEL_MAX and _QUALIFIED.fullmatch(name) is not None


def _is_dns_label(text: str) -> bool:
    return len(text) <= _LABEL_MAX and _DNS_LABEL.fullmatch(text) is not None


def _is_dns_subdomain(text: str) -> bool:
    return len(text) <= _SUBDOMAIN_MAX and _DNS_SUBDOMAIN.fullmatch(text) is not None


def _is_path_segment(text: str) -> bool:
    return text not in ("", ".", "..") and "/" not in text and "%" not in text


def _is_label_value(text: str) -> bool:
    return not text or (len(text) <= _LABEL_MAX and _QUALIFIED.fullmatch(text) is not None)


def _optional(form: Format) -> Format:
    return Format(lambda text: not text or form.holds(text), form.expected)


_SUBDOMAIN: Final = Format(_is_dns_subdomain, "a name such as a.b-1 of lower-case letters, digits, - and .")
_KEY: Final = Format(is_qualified_name, "a label key such as app or topology.kubernetes.io/zone")

FORMATS: Final = {
    "date-time": Format(lambda text: parse_time(text) is not None, "a time such as 2026-12-24T18:00:00Z"),
    "dns-label": Format(_is_dns_label, "a name of at most 63 lower-case letters, digits and -"),
    "dns-subdomain": _SUBDOMAIN,
    "optional-dns-subdomain": _optional(_SUBDOMAIN),
    "path-segment": Format(_is_path_segment, "a name without / and %"),
    "label-key": _KEY,
    "optional-label-key": _optional(_KEY),
    "annotation-key": Format(lambda text: is_qualified_name(text.lower()), _KEY.expected),
    "label-value": Format(_is_label_value, "a label value of at most 63 letters, digits, -, _ and ."),
    "int64": Format(
        lambda text: _INTEGER.fullmatch(text) is not None and int(text) in _INT64, "a whole number of 64 bits"
    ),
}
"""By their name in the schemas."""
