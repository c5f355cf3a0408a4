"""A small cluster whose times are extreme: running, waiting, failed and terminating gangs, with run times."""

from random import Random
from typing import Any, Final

Object = tuple[str, dict[str, Any]]

DECODABLE: Final = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2027-01-15T08:00:00Z",
    "2038-01-19T03:14:08Z",
    "2262-04-11T23:47:17Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31T00:00:00-23:59",
)
"""Times that Python can represent, with their offset from UTC."""

UNREADABLE: Final = (
    "0000-01-01T00:00:00Z",
    "10000-01-01T13:59:59Z",
    "292277026596-12-04T15:30:07Z",
    "-0001-12-31T10:00:00Z",
    "2026-06-30T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "yesterday",
    "",
)
"""Times that Python cannot represent. Servers written in Go send the first four."""

RUNTIMES: Final = ("1s", "999999h999999m999999s", "999999h")


class Times:
    """Draws times for the objects of one cluster."""

    def __init__(self, random: Random, choices: tuple[str, ...]) -> None:
        self._random, self._choices = random, choices

    def __call__(self) -> str | None:
        return self._random.choice((None, *self._choices))

    def fields(self, *names: str) -> dict[str, str]:
        """These fields, each with a time or left out."""
        return {name: at for name in names if (at := self()) is not None}


def cluster(random: Random, choices: tuple[str, ...]) -> list[Object]:
    """Objects whose times are drawn from these."""
    times = Times(random, choices)
    backfill = random.choice(("Easy", "Conservative"))
    objects: list[Object] = [
        ("Queue", {"metadata": _meta("q", times), "spec": {"backfill": backfill}, "status": _past(times)}),
        *(("Node", _node(f"n{number}", times)) for number in range(3)),
        ("PersistentVolumeClaim", {"metadata": _meta("c", times, namespace="team"), "spec": {}}),
    ]
    for number in range(random.randint(2, 6)):
        objects += _gang(f"g{number}", random, times)
    return objects


def _meta(name: str, times: Times, *, namespace: str = "", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", **times.fields("creationTimestamp"), **more}
    return {**meta, "namespace": namespace} if namespace else meta


def _past(times: Times) -> dict[str, Any]:
    return {"averageUse": {"cpu": "3"}, **times.fields("averageUseAt")}


def _node(name: str, times: Times) -> dict[str, Any]:
    heard = times.fields("lastTransitionTime", "lastHeartbeatTime")
    return {
        "metadata": _meta(name, times),
        "status": {
            "allocatable": {"cpu": "4", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True", **heard}],
        },
    }


def _gang(name: str, random: Random, times: Times) -> list[Object]:
    runtime = {"estimate": "1s", "max": random.choice(RUNTIMES)}
    spec = {"minMember": 2, "queue": "q", "runtime": runtime, **times.fields("startBy")}
    if random.random() < 0.3:
        spec["disruption"] = {"minRuntime": random.choice(RUNTIMES)}
        spec["recovery"] = {"onNodeLoss": "Restart", "gracePeriod": random.choice(RUNTIMES)}
    status = times.fields("startedAt")
    checkpoint = times.fields("scheduling.phalanx.dev/last-checkpoint")
    meta = _meta(name, times, namespace="team", annotations=checkpoint)
    state = random.choice(("waiting", "waiting", "running", "failed", "succeeded", "leaving"))
    pods = [("Pod", _pod(f"{name}-{number}", name, state, times, random)) for number in range(2)]
    return [("PodGroup", {"metadata": meta, "spec": spec, "status": status}), *pods]


def _pod(name: str, group: str, state: str, times: Times, random: Random) -> dict[str, Any]:
    meta = _meta(name, times, namespace="team", labels={"scheduling.phalanx.dev/pod-group": group})
    phase = {"running": "Running", "failed": "Failed", "succeeded": "Succeeded", "leaving": "Running"}
    if state == "leaving":
        grace = random.choice((0, 30, 2**31 - 1, 2**63 - 1, -1))
        meta |= {**times.fields("deletionTimestamp"), "deletionGracePeriodSeconds": grace}
    spec: dict[str, Any] = {
        "schedulerName": "phalanx",
        "priority": 0,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    }
    if state != "waiting":
        spec["nodeName"] = f"n{random.randint(0, 2)}"
    ended = {"state": {"terminated": {"exitCode": 1, **times.fields("finishedAt")}}, "name": "main"}
    conditions = [
        {"type": kind, "status": "True", "reason": "x", **times.fields("lastTransitionTime")}
        for kind in ("PodScheduled", "DisruptionTarget")
        if random.random() < 0.5
    ]
    status = {
        "phase": phase.get(state, "Pending"),
        "conditions": conditions,
        "containerStatuses": [ended] if state in ("failed", "succeeded") else [],
        **times.fields("startTime"),
    }
    return {"metadata": meta, "spec": spec, "status": status}
