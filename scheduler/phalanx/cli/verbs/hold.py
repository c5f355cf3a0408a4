"""`phalanx hold` and `phalanx release`: keep a waiting gang from being started, and let it start."""

import sys

import msgspec

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.verbs.jobs import GANG_KINDS
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.cli.verbs.runner import NotFound, NotReadable, Question, Session, reporting
from phalanx.cli.verbs.views.find import Ambiguous, find_gang, kind_named
from phalanx.cli.verbs.views.gangs import GangEntry, State, gang_entries
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.errors import NotFound as ObjectNotFound
from phalanx.model.api.kind import Kind
from phalanx.model.api.kinds import KINDS
from phalanx.model.gangs import Gang
from phalanx.model.names import ANNOTATION_SUSPENSION
from phalanx.model.workloads.kind import set_suspended
from phalanx.model.workloads.known import WORKLOADS


def hold(target: str, /, *, options: ClusterOptions | None = None) -> int:
    """Keep a waiting gang from being started until it is released.

    It sets `spec.hold` of the PodGroup. A workload without a PodGroup, such as a Job, is suspended instead,
    which deletes its waiting pods; that is refused once one of them has a node. You need the right to patch
    the object.

    Parameters
    ----------
    target
        A name, or podgroup/NAME, pod/NAME, job/NAME, or another kind of workload with its name.
    """
    return reporting("hold", lambda: _set(target, options or ClusterOptions(), held=True))


def release(target: str, /, *, options: ClusterOptions | None = None) -> int:
    """Let a gang start that is held: removes `spec.hold` of its PodGroup, or resumes the workload.

    Parameters
    ----------
    target
        A name, or podgroup/NAME, pod/NAME, job/NAME, or another kind of workload with its name.
    """
    return reporting("release", lambda: _set(target, options or ClusterOptions(), held=False))


def _set(target: str, options: ClusterOptions, *, held: bool) -> int:
    with Session(options) as session:
        question = Question(
            name="hold", kinds=GANG_KINDS, view=gang_entries, lines=lambda *_: (), needed=("PodGroup",)
        )
        seen = session.read(question)
        try:
            found = find_gang(gang_entries(seen), target)
        except Ambiguous as error:
            raise BadInput(str(error)) from error
        if found is not None and found.group is not None:
            return _set_group(session.client, found, held=held)
        if found is not None and found.gang is not None:
            return _set_workload(session.client, found.gang, held=held)
        return _set_without_pods(session, target, held=held)


def _set_group(client: BlockingClient, entry: GangEntry, *, held: bool) -> int:
    row = entry.row
    path = KINDS["PodGroup"].path(namespace=row.namespace, name=row.name)
    answer = msgspec.json.decode(client.merge_patch(path, {"spec": {"hold": True if held else None}}))
    if held and not answer["spec"].get("hold"):
        raise NotReadable("the PodGroups of this cluster have no spec.hold: run `phalanx install --crds`")
    if held and row.state is not State.WAITING:
        print(f"note: {row.reference} is {row.state.value}: it is held if it starts over", file=sys.stderr)
    return _done(f"podgroup {row.namespace}/{row.name}", held=held)


def _set_workload(client: BlockingClient, gang: Gang, *, held: bool) -> int:
    kind = WORKLOADS.get(gang.workload)
    if kind is None or not kind.suspended:
        raise NotReadable(
            f"{gang} has no PodGroup of Phalanx and cannot be suspended: give it a PodGroup to hold it"
        )
    if held and gang.nodes:
        raise NotReadable(f"{gang.namespace}/{gang.name} has started: suspending it would delete its pods")
    return _suspend(client, KINDS[gang.workload], gang.namespace, gang.name, held=held)


def _set_without_pods(session: Session, target: str, *, held: bool) -> int:
    """A workload that is suspended has no pods, so that no gang is known of it."""
    written, _, name = target.rpartition("/")
    for key, workload in WORKLOADS.items():
        if written and workload.suspended and workload.kind.lower() == kind_named(written):
            return _suspend(session.client, KINDS[key], session.namespace, name, held=held)
    raise NotFound(f"no gang of {target} in namespace {session.namespace}")


def _suspend(client: BlockingClient, kind: Kind, namespace: str, name: str, *, held: bool) -> int:
    """Without the annotation the scheduler does not resume it after an eviction."""
    body = {
        "metadata": {"annotations": {ANNOTATION_SUSPENSION: None}},
        **set_suspended(WORKLOADS[kind.workload], held),
    }
    reference = f"{kind.api_name.lower()} {namespace}/{name}"
    try:
        client.merge_patch(kind.path(namespace=namespace, name=name), body)
    except ObjectNotFound as error:
        raise NotFound(f"there is no {reference}") from error
    return _done(reference, held=held)


def _done(reference: str, *, held: bool) -> int:
    print(f"{reference} {'held' if held else 'released'}")
    return Exit.OK
