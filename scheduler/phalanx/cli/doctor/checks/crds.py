"""The CustomResourceDefinitions are there, served, and those of this version of Phalanx."""

from collections.abc import Iterator
from typing import Any

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation, Values

_INSTALL = "Run `phalanx install --crds` of the version that the scheduler runs."


def check(seen: Installation) -> Iterator[Finding]:
    """Compare each packaged definition with the installed one."""
    installed = {each["metadata"]["name"]: each for each in seen.crds}
    for wanted in seen.packaged_crds:
        name = wanted["metadata"]["name"]
        problem = "It is not installed."
        if name in installed:
            problem = _problem(wanted, installed[name]) or ""
        if problem:
            yield Finding(Severity.ERROR, f"CustomResourceDefinition {name}", problem, _INSTALL)


def _problem(wanted: Values, found: Values) -> str | None:
    conditions = found.get("status", {}).get("conditions") or ()
    states = {each["type"]: each for each in conditions}
    established = states.get("Established", {})
    if established.get("status") != "True":
        return f"It is not served: {established.get('message') or 'the API server has not accepted it'}."
    served = {each["name"] for each in found["spec"]["versions"] if each["served"]}
    missing = [each["name"] for each in wanted["spec"]["versions"] if each["name"] not in served]
    if missing:
        return f"It does not serve the version {', '.join(missing)}."
    place = difference(wanted["spec"], found["spec"], "spec") or _extra(wanted, found)
    return f"It differs from that of this version of Phalanx, first at {place}." if place else None


def _extra(wanted: Values, found: Values) -> str | None:
    """The first part of an installed schema that the packaged one does not have."""
    schemas = {each["name"]: each["schema"] for each in found["spec"]["versions"]}
    for each in wanted["spec"]["versions"]:
        place = difference(schemas[each["name"]], each["schema"], f"spec.versions[{each['name']}].schema")
        if place:
            return place
    return None


def difference(wanted: Any, found: Any, place: str) -> str | None:
    """The first place where `found` lacks something; the API server adds fields and drops empty ones."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if not value and not found.get(key):
                continue
            if key not in found:
                return f"{place}.{key}"
            inner = difference(value, found[key], f"{place}.{key}")
            if inner:
                return inner
        return None
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        inners = (
            difference(*both, f"{place}[{at}]") for at, both in enumerate(zip(wanted, found, strict=True))
        )
        return next(filter(None, inners), None)
    return None if wanted == found else place
