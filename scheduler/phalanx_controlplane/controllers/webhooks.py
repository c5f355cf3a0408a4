"""The published webhook configurations, changed to call a controller that runs outside of the cluster."""

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from phalanx_controlplane.controllers.definition import Controller, Manifest
from phalanx_controlplane.programs import Built

PROBE_LABEL: Final = "controlplane.phalanx.dev/probe"
"""An object with this label shows whether the API server calls a webhook yet."""


def configurations(controller: Controller, built: Built, *, url: str, authority: Path) -> list[Manifest]:
    """The webhook configurations of a controller that serves at `url` with a certificate of `authority`."""
    if not controller.webhooks:
        return []
    bundle = base64.b64encode(authority.read_bytes()).decode()
    found = [each for each in built.read(controller.webhooks) if "webhooks" in each]
    for configuration in found:
        _patch(configuration, _operations(controller, built, kind=configuration["kind"]))
        configuration["metadata"] = {"name": f"{controller.name}-{configuration['metadata']['name']}"}
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": bundle}
        configuration["webhooks"].append(_probe(configuration, url=url, bundle=bundle))
    return found


def urls(configuration: Manifest) -> list[str]:
    """The URLs that the controller must serve."""
    return [each["clientConfig"]["url"] for each in configuration["webhooks"][:-1]]


def probe_object(configuration: Manifest) -> Manifest:
    """An object that the API server refuses once it calls the webhooks of this configuration."""
    name = configuration["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"probe-{name}", "namespace": "default", "labels": {PROBE_LABEL: name}},
    }


def _probe(configuration: Manifest, *, url: str, bundle: str) -> Manifest:
    """A webhook for the probe object. Nothing serves it, so that the object is refused."""
    return {
        "name": "probe.controlplane.phalanx.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": f"{url}/probe", "caBundle": bundle},
        "objectSelector": {"matchLabels": {PROBE_LABEL: configuration["metadata"]["name"]}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
    }


def _operations(controller: Controller, built: Built, *, kind: str) -> Iterable[Any]:
    """The operations of the patch files for one kind; their names say for which."""
    word = "mutating" if kind.startswith("Mutating") else "validating"
    for pattern in controller.webhook_patches:
        for path in sorted(built.files.glob(pattern)):
            if path.name.startswith(word):
                yield from built.read(str(path.relative_to(built.files)))[0]


def _patch(configuration: Manifest, operations: Iterable[Any]) -> None:
    """Apply operations that replace a webhook; there are no others so far."""
    for operation in operations:
        found = re.fullmatch(r"/webhooks/(\d+)", operation["path"])
        if operation["op"] != "replace" or found is None:
            raise ValueError(f"an operation on webhooks that is not implemented: {operation}")
        configuration["webhooks"][int(found.group(1))] = operation["value"]
