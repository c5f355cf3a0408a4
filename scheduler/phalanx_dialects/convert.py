"""`phalanx convert`: write PodGroups of other projects, and the pods that name them, as those of Phalanx."""

import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Final

import msgspec
import yaml
from cyclopts import Parameter
from msgspec.structs import replace
from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.manifests.documents import Document, parse, read_sources
from phalanx.cli.manifests.read import kind_of
from phalanx.model.api.kind import Kind
from phalanx.model.texts import printable
from phalanx.model.workloads.known import WORKLOADS

from phalanx_dialects.conversion.inputs import Inputs, Object, Report, read_inputs
from phalanx_dialects.conversion.leftovers import ignored, unconverted
from phalanx_dialects.conversion.members import with_what_others_say
from phalanx_dialects.conversion.pod_groups import POD_GROUPS, QUEUES, convert_pod_group, convert_queue
from phalanx_dialects.conversion.templates import convert_owner, convert_template, templates_of
from phalanx_dialects.conversion.volcano_jobs import JOBS, convert_job
from phalanx_dialects.conversion.weights import with_whole_weights
from phalanx_dialects.conversion.yunikorn_pods import application_groups
from phalanx_dialects.conversion.yunikorn_queues import without_queues

_NOT_CONVERTED: Final = (
    "scheduling.volcano.sh",
    "scheduling.run.ai",
)
"""API groups of which only PodGroups and Queues are converted."""


def convert(
    *,
    filename: Annotated[list[str], Parameter(name=["--filename", "-f"], consume_multiple=True, negative=())],
) -> int:
    """Write PodGroups of other projects, and the pods that name them, as those of Phalanx.

    Prints all objects of the input as YAML. PodGroups of Kubernetes, scheduler-plugins, Volcano and KAI, and
    Queues of the last two, become those of Phalanx; so do task groups and queues of YuniKorn. Pods and pod
    templates get its labels and its scheduler name. Other objects are printed as they are. What has no
    counterpart is an error that names it; nothing is printed then. What is left out, or stays and means
    nothing here, is a note.

    Parameters
    ----------
    filename
        Manifests in YAML or JSON: files, folders, or - for standard input.
    """
    documents: Sequence[Document] = [each for source in read_sources(filename) for each in parse(source)]
    report = Report()
    documents = with_whole_weights(documents, report.notes)
    documents, formed = with_what_others_say(documents, report)
    try:
        inputs = read_inputs(documents, formed)
    except msgspec.ValidationError as error:
        raise BadInput(f"Topology, HyperNode or PriorityClass: {error}") from error
    documents, queues = without_queues(documents, report.wrong)
    groups = application_groups(documents, report.wrong)
    found = [
        *inputs.made.objects,
        *queues,
        *groups,
        *(_converted(document, inputs, report) for document in documents),
    ]
    if report.wrong:
        raise BadInput(*report.wrong)
    for note in (*inputs.made.notes, *report.notes):
        print(printable(f"note: {note}"), file=sys.stderr)
    yaml.safe_dump_all([each for each in found if each is not None], sys.stdout, sort_keys=False)
    return Exit.OK


def _converted(document: Document, inputs: Inputs, report: Report) -> Object | None:
    kind = kind_of(document)
    try:
        if kind is not None and kind.name in QUEUES:
            return convert_queue(document, QUEUES[kind.name], report)
        if kind is not None and kind.name in POD_GROUPS:
            return convert_pod_group(document, POD_GROUPS[kind.name], inputs, report)
        if (document.api_version, document.kind) in JOBS:
            return convert_job(document, report)
        if document.api_version.rpartition("/")[0] in _NOT_CONVERTED:
            error = f"kind: {document.kind} of {document.api_version} is not converted yet"
            report.wrong.append(f"{document}: {error}")
            return document.value
        if _may_own_pods(kind):
            return _with_templates(document, report)
        if kind is not None and kind.name == "Node" and inputs.made.node_labels:
            return _with_labels(document, inputs.made.node_labels)
    except msgspec.ValidationError as error:
        report.wrong.append(f"{document}: {error}")
    return document.value


def _may_own_pods(kind: Kind | None) -> bool:
    """Whether it is a pod, a workload, a namespace, which may name a queue, or a kind that is not known."""
    return kind is None or kind.name in ("Pod", "Namespace") or kind.name in WORKLOADS


def _with_labels(document: Document, labels: Mapping[str, Mapping[str, str]]) -> Object:
    """The node with the labels of the tiers that contain it."""
    meta = document.value.get("metadata") or {}
    added = labels.get(str(meta.get("name")), {})
    return {**document.value, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **added}}}


def _with_templates(document: Document, report: Report) -> Object:
    document = replace(document, value=deepcopy(document.value))
    value: Object = document.value
    templates = list(templates_of(document))
    for path, template in templates:
        wrong, notes = list[str](), list[str]()
        convert_template(template, wrong, notes)
        at = f"{document}: {path}." if path else f"{document}: "
        report.wrong.extend(f"{at}{error}" for error in wrong)
        report.notes.extend(f"{at}{note}" for note in notes)
    if document.kind != "Pod":
        notes = []
        convert_owner(value, templates, notes)
        report.notes.extend(f"{document}: {note}" for note in notes)
    report.wrong.extend(f"{document}: {error}" for error in unconverted(value))
    report.notes.extend(f"{document}: {note}" for note in ignored(value))
    return value
