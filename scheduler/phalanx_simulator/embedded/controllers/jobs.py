"""The Job controller of the embedded cluster, with podFailurePolicy.

It creates a Job's pods, replaces failed ones, counts them and completes the Job.
"""

from typing import Any

from msgspec import Struct

from phalanx_simulator.embedded.apiserver.objects import is_deleting, without
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue


class Failures(Struct, frozen=True):
    """Effect of a Job's newly failed pods.

    `verdict`: why the Job fails, empty if it does not.
    """

    counted: int
    verdict: str = ""


def judge(job: Object, failed: list[Object]) -> Failures:
    """Apply the podFailurePolicy to failed pods: the first matching rule decides."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or []
    counted, verdict = 0, ""
    for pod in failed:
        action, why = _first_match(rules, pod)
        counted += action != "Ignore"
        if action == "FailJob" and not verdict:
            verdict = why
    return Failures(counted, verdict)


def _first_match(rules: list[Any], pod: Object) -> tuple[str, str]:
    """Action of the first matching rule (Count without one), and the Job's message."""
    for index, rule in enumerate(rules):
        found = _matched(rule, pod)
        if found:
            return rule["action"], f"{found} matching {rule['action']} rule at index {index}"
    return "Count", ""


def _matched(rule: Object, pod: Object) -> str:
    """The part of the pod that the rule matches; empty if it does not."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if rule.get("onExitCodes"):
        container, code = _exit_code(rule["onExitCodes"], pod["status"])
        return f"Container {container} for pod {name} failed with exit code {code}" if container else ""
    statuses = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", [])}
    for pattern in rule.get("onPodConditions") or []:
        if statuses.get(pattern["type"]) == pattern.get("status", "True"):
            return f"Pod {name} has condition {pattern['type']}"
    return ""


def _exit_code(wanted: Object, status: Object) -> tuple[str, int]:
    """The first container whose exit code matches the operator and the values."""
    containers = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    for container in containers:
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        is_meant = wanted.get("containerName", container["name"]) == container["name"]
        if is_meant and code and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return container["name"], code
    return "", 0


JOBS = "jobs.batch"
_TRACKING = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"


class JobController:
    """Creates and replaces each Job's pods, and updates its status."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: dict[str, dict[Key, Object]] = {}
        self._queue = WorkQueue(self._sync)
        self._unsubscribe = [client.subscribe(JOBS, self._on_job), client.subscribe("pods", self._on_pod)]
        for key in client.keys("pods"):
            self._note(key, client.get(key) or {})
        for key in client.keys(JOBS):
            self._queue.add(key)

    def close(self) -> None:
        """Stop updating Jobs."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._queue.close()

    def _on_job(self, change: Change) -> None:
        self._queue.add(change.entry.key)

    def _on_pod(self, change: Change) -> None:
        key, pod, previous = change.entry.key, change.entry.data, change.previous
        owner = _owner(pod)
        before = None if previous is None else _owner(previous.data)
        is_deleted = change.type is ChangeType.DELETED
        if before is not None and (is_deleted or owner is None or owner["uid"] != before["uid"]):
            self._pods[before["uid"]].pop(key, None)
        if not is_deleted:
            self._note(key, pod)
        elif owner is not None:
            self._queue.add(Key(JOBS, key.namespace, owner["name"]))

    def _note(self, key: Key, pod: Object) -> None:
        owner = _owner(pod)
        if owner is not None:
            self._pods.setdefault(owner["uid"], {})[key] = pod
            self._queue.add(key)

    def _sync(self, key: Key) -> None:
        if key.resource == JOBS:
            self._sync_job(key)
        else:
            self._sync_pod(key)

    def _sync_pod(self, key: Key) -> None:
        """Queue the pod's Job; release a pod whose Job is being deleted or does not exist."""
        pod = self._client.get(key)
        owner = None if pod is None else _owner(pod)
        if pod is None or owner is None:
            return
        job_key = Key(JOBS, key.namespace, owner["name"])
        job = self._client.get(job_key)
        if job is not None and job["metadata"]["uid"] == owner["uid"] and not is_deleting(job):
            self._queue.add(job_key)
        elif _is_tracked(pod):
            self._client.update(key, _untracked)

    def _sync_job(self, key: Key) -> None:
        job = self._client.get(key)
        if job is None or is_deleting(job):
            return
        pods = list(self._pods.get(job["metadata"]["uid"], {}).items())
        if job["spec"].get("suspend"):
            self._suspend(pods)
            return
        status = _counted(job, [pod for _, pod in pods], now=self._client.now())
        if status != job.get("status"):
            self._client.update_status(key, **status)
        for pod_key, pod in pods:
            if _is_tracked(pod) and _is_over(job, pod):
                self._client.update(pod_key, _untracked)
        if status.get("conditions"):
            self._stop_all(pods)
        else:
            self._delete_surplus(job, [each for each in pods if not _is_over(job, each[1])])
            self._create_missing(job, status, [pod for _, pod in pods if not _is_over(job, pod)])

    def _stop_all(self, pods: list[tuple[Key, Object]]) -> None:
        for key, pod in pods:
            if not _has_ended(pod) and not is_deleting(pod):
                self._client.delete(key, uid=pod["metadata"]["uid"])

    def _suspend(self, pods: list[tuple[Key, Object]]) -> None:
        """Delete the pods that have not ended. They do not count as failed."""
        self._stop_all(pods)
        for key, pod in pods:
            if is_deleting(pod) and _is_tracked(pod):
                self._client.update(key, _untracked)

    def _delete_surplus(self, job: Object, active: list[tuple[Key, Object]]) -> None:
        """After the parallelism was lowered: first pods without a node, then pending ones. They do not
        count as failed."""
        surplus = len(active) - int(job["spec"]["parallelism"])
        for key, pod in sorted(active, key=lambda each: _usefulness(each[1]))[: max(0, surplus)]:
            if _is_tracked(pod):
                self._client.update(key, _untracked)
            self._client.delete(key, uid=pod["metadata"]["uid"])

    def _create_missing(self, job: Object, status: Object, active: list[Object]) -> None:
        spec, namespace = job["spec"], job["metadata"]["namespace"]
        slots = int(spec["parallelism"]) - len(active)
        if spec["completionMode"] == "Indexed":
            taken = {_index(pod) for pod in active} | set(_indexes(status.get("completedIndexes", "")))
            free = [index for index in range(int(spec["completions"])) if index not in taken]
            for index in free[: max(0, slots)]:
                self._client.create("pods", namespace, _member(job, index))
            return
        if "completions" in spec:
            slots = min(slots, int(spec["completions"]) - int(status["succeeded"]) - len(active))
        for _ in range(slots):
            self._client.create("pods", namespace, _member(job, None))


def _counted(job: Object, pods: list[Object], *, now: str) -> Object:
    """The Job's status with the pods that have ended since counted."""
    spec, status = job["spec"], dict(job.get("status") or {})
    status.setdefault("startTime", now)
    fresh = [pod for pod in pods if _is_tracked(pod) and _is_over(job, pod)]
    well = [pod for pod in fresh if pod["status"].get("phase") == "Succeeded"]
    failures = judge(job, [pod for pod in fresh if pod["status"].get("phase") != "Succeeded"])
    status["succeeded"] = status.get("succeeded", 0) + len(well)
    status["failed"] = status.get("failed", 0) + failures.counted
    left = [pod for pod in pods if not _has_ended(pod)]
    status["terminating"] = sum(1 for pod in left if is_deleting(pod))
    status["active"] = len(left) - status["terminating"]
    if spec["completionMode"] == "Indexed":
        done = {*_indexes(status.get("completedIndexes", "")), *(_index(pod) for pod in well)}
        status["completedIndexes"] = _ranges(sorted(done))
        status["succeeded"] = len(done)
    if not status.get("conditions"):
        restarts = sum(_restarts(pod) for pod in left) if _restarts_in_place(spec) else 0
        _conclude(spec, status, now, restarts=restarts, verdict=failures.verdict)
    return status


def _usefulness(pod: Object) -> tuple[bool, bool, int]:
    """The order in which pods are deleted when there are too many."""
    is_running = pod["status"].get("phase") == "Running"
    return (bool(pod["spec"].get("nodeName")), is_running, -int(pod["metadata"]["resourceVersion"]))


def _restarts_in_place(spec: Object) -> bool:
    return bool(spec["template"]["spec"].get("restartPolicy") == "OnFailure")


def _restarts(pod: Object) -> int:
    return sum(status.get("restartCount", 0) for status in pod["status"].get("containerStatuses", []))


def _conclude(spec: Object, status: Object, now: str, *, restarts: int, verdict: str) -> None:
    limit = spec["backoffLimit"]
    if verdict:
        status["conditions"] = _failed("PodFailurePolicy", verdict, now)
    elif status["succeeded"] >= spec.get("completions", float("inf")):
        status["completionTime"] = now
        status["conditions"] = [
            _condition(
                "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods", now
            ),
            _condition("Complete", "CompletionsReached", "Reached expected number of succeeded pods", now),
        ]
    elif status["failed"] > limit or (restarts and restarts >= limit):
        why = "Job has reached the specified backoff limit"
        status["conditions"] = _failed("BackoffLimitExceeded", why, now)


def _failed(reason: str, why: str, now: str) -> list[Object]:
    return [_condition(type_, reason, why, now) for type_ in ("FailureTarget", "Failed")]


def _condition(type_: str, reason: str, message: str, now: str) -> Object:
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": type_, "status": "True", "reason": reason, "message": message, **times}


def _member(job: Object, index: int | None) -> Object:
    """A new pod of the Job; an index goes into its name, a label and an annotation."""
    metadata, template = job["metadata"], job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    completion_index = {} if index is None else {_INDEX: str(index)}
    given = template.get("metadata") or {}
    spec = (
        template["spec"] if index is None else {**template["spec"], "hostname": f"{metadata['name']}-{index}"}
    )
    pod_metadata: dict[str, Any] = {
        "generateName": f"{metadata['name']}-" if index is None else f"{metadata['name']}-{index}-",
        "labels": {**given.get("labels", {}), **completion_index},
        "annotations": {**given.get("annotations", {}), **completion_index},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "finalizers": [_TRACKING],
    }
    return {"metadata": pod_metadata, "spec": _copy(spec)}


def _copy(item: Any) -> Any:
    """A copy that the server may complete in place."""
    if isinstance(item, dict):
        return {name: _copy(value) for name, value in item.items()}
    return [_copy(value) for value in item] if isinstance(item, list) else item


def _owner(pod: Object) -> Object | None:
    owners = pod.get("metadata", {}).get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == "Job"), None)


def _has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _is_over(job: Object, pod: Object) -> bool:
    """Whether the pod has finished and is replaced, or is being deleted where the Job replaces those."""
    waits = job["spec"].get("podReplacementPolicy") == "Failed"
    return _has_ended(pod) or (is_deleting(pod) and not waits)


def _is_tracked(pod: Object) -> bool:
    return _TRACKING in pod["metadata"].get("finalizers", [])


def _untracked(pod: Object) -> Object:
    metadata = pod["metadata"]
    left = [name for name in metadata["finalizers"] if name != _TRACKING]
    rest = without(metadata, "finalizers")
    return {**pod, "metadata": {**rest, "finalizers": left} if left else rest}


def _index(pod: Object) -> int:
    return int(pod["metadata"]["annotations"][_INDEX])


def _indexes(text: str) -> list[int]:
    """0-2,5 as 0, 1, 2, 5."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _ranges(indexes: list[int]) -> str:
    """0, 1, 2, 5 as 0-2,5."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
