"""Plain Jobs of applications, as a user writes them: no PodGroup, one scheduler name."""

from collections.abc import Mapping
from typing import Any, Final

from phalanx_simulator.embedded.manifests import Manifest, job

from bench.published.applications import LABEL_APPLICATION, Application
from bench.published.site import Site

_IGNORED: Final[dict[str, Any]] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""Evicted pods are no failures; for these the Job controller waits longer each time."""


def plain_job(site: Site, application: Application, *, labels: Mapping[str, str] | None = None) -> Manifest:
    """An Indexed Job with all pods of the application; `labels` are for the Job and its pods."""
    made = job(
        application.name, members=application.size, scheduler=site.scheduler, requests=application.requests
    )
    both = {**(labels or {}), LABEL_APPLICATION: application.name}
    template = made["spec"]["template"]
    made["metadata"]["labels"] = dict(both)
    template["metadata"]["labels"] = both
    template["spec"]["terminationGracePeriodSeconds"] = 1
    made["spec"]["podFailurePolicy"] = {"rules": [_IGNORED]}
    return made
