"""Jobs of Volcano, whose controllers make the pods and the PodGroup that Phalanx reads."""

from copy import deepcopy
from typing import Final

from phalanx.cli.manifests.documents import Document
from phalanx.model.dialects.dialect import refused_annotations
from phalanx.model.dialects.volcano import REFUSED, REFUSED_OF_PODS
from phalanx.model.names import DEFAULT_SCHEDULER_NAME

from phalanx_dialects.conversion.inputs import Object, Report
from phalanx_dialects.conversion.leftovers import ignored, unconverted
from phalanx_dialects.conversion.templates import OTHER_SCHEDULERS, mapping_of

JOBS: Final = (("batch.volcano.sh/v1alpha1", "Job"), ("flow.volcano.sh/v1alpha1", "JobTemplate"))


def convert_job(document: Document, report: Report) -> Object:
    """The same Job, of which all pods name Phalanx: one scheduler for the Job and none for its tasks."""
    value: Object = deepcopy(document.value)
    spec = value.get("spec")
    if not isinstance(spec, dict):
        return value
    if spec.get("schedulerName") in (None, "", *OTHER_SCHEDULERS):
        spec["schedulerName"] = DEFAULT_SCHEDULER_NAME
    wrong = list(
        refused_annotations(mapping_of(mapping_of(value.get("metadata")).get("annotations")), REFUSED)
    )
    tasks = spec.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        template = mapping_of(mapping_of(task).get("template"))
        inner = template.get("spec")
        if isinstance(inner, dict) and inner.get("schedulerName") in tuple(OTHER_SCHEDULERS):
            del inner["schedulerName"]
        annotations = mapping_of(mapping_of(template.get("metadata")).get("annotations"))
        at = f"spec.tasks[{index}].template"
        wrong += [f"{at}.{path}" for path in refused_annotations(annotations, REFUSED_OF_PODS)]
    report.wrong.extend(f"{document}: {path}: has no counterpart" for path in wrong)
    report.wrong.extend(f"{document}: {error}" for error in unconverted(value))
    report.notes.append(
        f"{document}: Volcano's controllers make its pods and its PodGroup, which Phalanx reads"
    )
    report.notes.extend(f"{document}: {note}" for note in ignored(value))
    return value
