"""All cases: what was published, by whom, and what is played."""

from pathlib import Path
from typing import Final, get_args

from msgspec import Struct

from bench.published.deadlock import Deadlock
from bench.published.knavigator.case import Workflows
from bench.published.mpi import MpiJobs
from bench.published.places import OURS, POD_BY_POD, Scheduler
from bench.published.queues import Division, reclaim
from bench.published.site import Play
from bench.published.spark import Kept, Queries, Work
from bench.published.workflow import Forecasts

WORKFLOWS: Final = Path(__file__).parent / "workflows"

_BOTH: Final = (OURS, POD_BY_POD)


class Case(Struct, frozen=True, kw_only=True):
    """`title`: beside the other cases of its topic. `schedulers`: those that can play it."""

    title: str
    play: Play
    schedulers: tuple[Scheduler, ...] = _BOTH


class Topic(Struct, frozen=True, kw_only=True):
    """Cases that were published together. `published`: the figures; `remarks`: how ours differ."""

    name: str
    title: str
    published: str
    source: str
    remarks: str
    cases: tuple[Case, ...]


_TALK: Final = (
    "slides of K. Ma on Volcano in its repository, `example/kubecon-2019-china/volcano-introduction.pdf`, "
    "page 11, and `docs/Volcano - A Kubernetes Native Batch System.pdf`"
)

DEADLOCK: Final = Topic(
    name="deadlock",
    title="Deadlock of training jobs",
    published=(
        "Jobs of 2 parameter servers and 4 workers, 1, 2 and 5 at once. Without gangs: of 2 jobs, one waits "
        "with a part of its pods; of 5, only 2 finish, and the others wait for more than 20 hours. With "
        "gangs all finish."
    ),
    source=f"{_TALK}, pages 5 to 7. The size of the cluster, of the pods and the model are not published.",
    remarks=(
        "Nine slots for jobs of six pods; a job trains for a minute while all its pods run. The result "
        "without gangs depends on the order in which pods arrive, so two orders are played."
    ),
    cases=tuple(
        Case(title=f"{jobs} at once, {order}", play=Deadlock(jobs, order))
        for order in ("in turn", "job by job")
        for jobs in (1, 2, 5)
    ),
)

QUEUES: Final = Topic(
    name="queues",
    title="Two queues share a cluster",
    published=(
        "4 cores, queues of weights 1 and 3. The shares are 1 and 3 cores. If one queue uses all cores with "
        "a job of 1 and a job of 3, and the other one submits a job of 3, then the job of 3 is evicted."
    ),
    source="Volcano's documentation, https://volcano.sh/en/docs/v1-10-0/queue",
    remarks=(
        "Weights: both queues submit 40 jobs of one core and half a minute, the queue of weight 1 ten "
        "seconds before the other; the share is that of the 300 s after that. Return: jobs of the first "
        "queue take ten minutes."
    ),
    cases=(Case(title="weights", play=Division()), Case(title="return of a share", play=reclaim)),
)

WORKFLOW: Final = Topic(
    name="workflow",
    title="Dependent jobs of a workflow tool",
    published="The steps of a weather forecast with WRF, two of them MPI programs. No figure is published.",
    source=(
        "Volcano's blog, https://volcano.sh/en/blog/hpc-en (HPC on Volcano: How Containers Support HPC "
        "Applications in the Meteorological Industry)"
    ),
    remarks=(
        "Three forecasts at once on 12 cores: steps of 1, 1, 1, 4, 8, 1 and 2 pods, which take 20, 20, 20, "
        "30, 60, 20 and 20 s while all their pods run. A runner creates a plain Job when the Jobs before it "
        "are complete, as Argo or Nextflow do."
    ),
    cases=(Case(title="3 forecasts", play=Forecasts(3)),),
)

MPI: Final = Topic(
    name="mpi",
    title="Start of MPI jobs",
    published=(
        "With 10 workers, and without an order of the start, the launcher restarts two to three times. With "
        "an order the launcher is created when the workers run; then MPI operator and a gang scheduler "
        "wait for each other for ever."
    ),
    source=(
        "https://github.com/volcano-sh/volcano/pull/1924 and "
        "https://github.com/kubeflow/mpi-operator/issues/608"
    ),
    remarks=(
        "Three jobs of a launcher and 10 workers on 24 cores, which hold two of them; a job works for a "
        "minute. Only waiting for cores is played: fake nodes start all containers at once, so restarts "
        "during the start of containers are not in these figures."
    ),
    cases=tuple(
        Case(title=f"launcher {launched}", play=MpiJobs(launched))
        for launched in ("with the workers", "after the workers")
    ),
)


def _kept(kept: Kept, work: Work, scheduler: Scheduler) -> Case:
    title = f"104, {kept}, {work} each"
    return Case(title=title, play=Queries(104, kept, work), schedulers=(scheduler,))


SPARK: Final = Topic(
    name="spark",
    title="104 Spark queries",
    published=(
        "104 queries of TPC-DS at once on 4 nodes of 8 cores and 64 GB; drivers and 5 executors each request "
        "1 core and 4 GB. Without a node for drivers at most 26 queries can run at the same time. With "
        "minResources, Volcano is about 30 % faster than kube-scheduler with a node for drivers (page 8; "
        "page 5 says 51 %)."
    ),
    source=f"{_TALK}, pages 5 and 8",
    remarks=(
        "How long a query takes is not published, so the times below show only how the two assumptions "
        "differ: a minute with two executors or more, or two minutes divided by the number of executors. "
        "Phalanx reserves cores for two executors with each driver."
    ),
    cases=(
        Case(title="26, nothing kept", play=Queries(26, "nothing"), schedulers=(POD_BY_POD,)),
        Case(title="104, nothing kept", play=Queries(104, "nothing"), schedulers=(POD_BY_POD,)),
        *(_kept("a node for drivers", work, POD_BY_POD) for work in get_args(Work)),
        *(_kept("reserved executors", work, OURS) for work in get_args(Work)),
    ),
)

KNAVIGATOR: Final = Topic(
    name="knavigator",
    title="Workflow files of Knavigator",
    published=(
        "Tests of gangs, of topology (the best nodes for three pods on its 12 nodes are n5, n7 and n8) and "
        "of reclaim, as files of tasks. No figures of schedulers are published with them."
    ),
    source="https://github.com/NVIDIA/knavigator, `resources/benchmarks` and `resources/workflows`",
    remarks=(
        "Three files of ours in its format (`bench/published/workflows`), unchanged for both schedulers but "
        "for `schedulerName`. `python -m bench.published.knavigator` plays the files of Knavigator."
    ),
    cases=tuple(
        Case(title=name, play=Workflows(WORKFLOWS, (f"{name}.yaml",)))
        for name in ("gang", "topology", "reclaim")
    ),
)

TOPICS: Final = (DEADLOCK, QUEUES, WORKFLOW, MPI, SPARK, KNAVIGATOR)
