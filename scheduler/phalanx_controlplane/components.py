"""Command lines and readiness URLs of the components.

Configuration files of components are written into the run folder here.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

FAKE_NODE_ANNOTATION: Final = "kwok.x-k8s.io/node"
DEFAULT_STAGES: Final = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
ENDLESS_STAGES: Final = (*DEFAULT_STAGES[:2], "pod/fast/pod-ready", "pod/fast/pod-delete")
"""Pods of Jobs run until they are deleted. With the default stages they complete at once."""

CONTROLLERS: Final = (
    "namespace-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "job-controller",
    "cronjob-controller",
    "replicaset-controller",
    "deployment-controller",
    "statefulset-controller",
    "disruption-controller",
    "persistentvolume-binder-controller",
    "podgroup-protection-controller",
)
"""Controllers that clusters for batch work need. Others only cost CPU."""

_SINCE: Final = {"podgroup-protection-controller": 37}
"""The minor release that has a controller first: an earlier one does not start with its name."""

REAL_NODE_CONTROLLERS: Final = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
)
"""What containers need besides: an account, and the certificate of the API server. Users have the roles
`view`, `edit` and `admin`, which are empty without the third."""

NODE_GRACE_WITHOUT_HEARTBEATS_S: Final = 24 * 3600
"""Seconds without a heartbeat until a node counts as lost, if there are no heartbeats: effectively never."""

START_ORDER: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kube-scheduler")
"""Components stop in reverse order: without etcd the API server hangs and keeps its port."""


class KubeScheduler(Struct, frozen=True, kw_only=True):
    """Settings of the real kube-scheduler.

    Its default client limits (50/100) would dominate measurements.
    """

    client_qps: int = 5000
    client_burst: int = 5000
    feature_gates: tuple[str, ...] = ()
    """Such as `GenericWorkload=true`. The API server needs the same feature gates."""


class Settings(Struct, frozen=True, kw_only=True):
    """Components of a control plane.

    Flags given here override the defaults.
    """

    kwok: bool = True
    stages: tuple[str, ...] = DEFAULT_STAGES
    """Sets of KWOK stages by their folder in the module of KWOK: `pod/general`, `node/chaos`, ...

    Single stages (`pod/fast/pod-ready`) and absolute paths of other folders and files are accepted too.
    """
    controller_manager: bool = True
    kube_scheduler: KubeScheduler | None = None
    real_nodes: tuple[str, ...] = ()
    """Nodes with a real kubelet. Each has the rights of its node, and pods have tokens of ServiceAccounts."""
    node_lease_seconds: int | None = None
    """Seconds without a heartbeat until a node counts as lost. KWOK sends four in that time. None: no
    heartbeats."""
    apiserver_flags: tuple[str, ...] = ()
    controller_manager_flags: tuple[str, ...] = ()


class Places(Struct, frozen=True, kw_only=True):
    """Paths and ports of the components of one control plane. Ports are on 127.0.0.1."""

    run: Path
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    controller_manager_port: int
    scheduler_port: int
    kwok_port: int

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.apiserver_port}"

    @property
    def certificate(self) -> Path:
        """The serving certificate of the API server. It is self-signed."""
        return self.run / "apiserver" / "apiserver.crt"

    @property
    def certificate_key(self) -> Path:
        """The private key of that certificate."""
        return self.run / "apiserver" / "apiserver.key"

    @property
    def tokens(self) -> Path:
        """The static token file of the API server."""
        return self.run / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """The key that signs and verifies service-account tokens."""
        return self.run / "service-account.key"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user."""
        return self.run / f"{user}.kubeconfig"


def command_lines(places: Places, *, settings: Settings, stages: Path, minor: int) -> dict[str, list[str]]:
    """Command line of each enabled component, in starting order.

    `stages` is the folder of KWOK's stages, `minor` the second number of the release of Kubernetes.
    """
    lease = settings.node_lease_seconds
    lines = {"etcd": etcd(places), "kube-apiserver": _apiserver_of(places, settings=settings)}
    if settings.controller_manager:
        controllers = (*CONTROLLERS, *(REAL_NODE_CONTROLLERS if settings.real_nodes else ()))
        flags = controller_manager(
            places,
            node_grace_seconds=lease or NODE_GRACE_WITHOUT_HEARTBEATS_S,
            controllers=tuple(name for name in controllers if _SINCE.get(name, 0) <= minor),
        )
        lines["kube-controller-manager"] = [*flags, *settings.controller_manager_flags]
    if settings.kwok:
        files = tuple(path for name in settings.stages for path in _stage_files(stages / name))
        lines["kwok"] = kwok(places, stages=files, node_lease_seconds=lease or 0)
    if settings.kube_scheduler is not None:
        lines["kube-scheduler"] = scheduler(places, settings=settings.kube_scheduler)
    return lines


def _apiserver_of(places: Places, *, settings: Settings) -> list[str]:
    real = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")
    flags = apiserver(places, service_accounts=bool(settings.real_nodes))
    return [*flags, *(real if settings.real_nodes else ()), *settings.apiserver_flags]


def _stage_files(named: Path) -> list[Path]:
    single = named.with_suffix(".yaml")
    files = [single] if single.is_file() else sorted(named.glob("*.yaml"))
    if not files:
        raise FileNotFoundError(f"KWOK has no stages in {named}")
    return files


def ready_urls(places: Places) -> dict[str, str]:
    """The URL of each component that returns 200 once it is ready."""
    return {
        "etcd": f"http://127.0.0.1:{places.etcd_port}/readyz",
        "kube-apiserver": f"{places.url}/readyz",
        "kube-controller-manager": f"https://127.0.0.1:{places.controller_manager_port}/healthz",
        "kube-scheduler": f"https://127.0.0.1:{places.scheduler_port}/readyz",
        "kwok": f"http://127.0.0.1:{places.kwok_port}/readyz",
    }


def etcd(places: Places) -> list[str]:
    """etcd on loopback, without TLS and without fsync: its data need not survive a crash of the machine."""
    client, peer = f"http://127.0.0.1:{places.etcd_port}", f"http://127.0.0.1:{places.etcd_peer_port}"
    return [
        "--name=local",
        f"--data-dir={places.run / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def apiserver(places: Places, *, service_accounts: bool) -> list[str]:
    """kube-apiserver with RBAC.

    Without `service_accounts` their admission plugin is off, so that a new namespace accepts pods at once.
    """
    return [
        f"--etcd-servers=http://127.0.0.1:{places.etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={places.apiserver_port}",
        f"--cert-dir={places.run / 'apiserver'}",
        f"--token-auth-file={places.tokens}",
        "--authorization-mode=RBAC",
        *([] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={places.service_account_key}",
        f"--service-account-signing-key-file={places.service_account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--allow-privileged",
    ]


def controller_manager(
    places: Places, *, node_grace_seconds: int, controllers: tuple[str, ...] = CONTROLLERS
) -> list[str]:
    """kube-controller-manager with the required controllers and without client rate limits."""
    return [
        f"--kubeconfig={places.kubeconfig('kube-controller-manager')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={places.controller_manager_port}",
        f"--cert-dir={places.run / 'controller-manager'}",
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
        f"--service-account-private-key-file={places.service_account_key}",
        f"--root-ca-file={places.certificate}",
        f"--node-monitor-grace-period={node_grace_seconds}s",
        "--terminated-pod-gc-threshold=0",
    ]


def scheduler(places: Places, *, settings: KubeScheduler) -> list[str]:
    """kube-scheduler with a configuration file, which is written here."""
    path = places.run / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(_scheduler_config(places, settings=settings), sort_keys=False))
    gates = ",".join(settings.feature_gates)
    return [
        *([f"--feature-gates={gates}"] if gates else []),
        f"--config={path}",
        "--bind-address=127.0.0.1",
        f"--secure-port={places.scheduler_port}",
        f"--cert-dir={places.run / 'kube-scheduler'}",
    ]


def _scheduler_config(places: Places, *, settings: KubeScheduler) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(places.kubeconfig("kube-scheduler")),
            "qps": settings.client_qps,
            "burst": settings.client_burst,
        },
    }


def kwok(places: Places, *, stages: tuple[Path, ...], node_lease_seconds: int) -> list[str]:
    """KWOK as kubelet of annotated nodes. Stages and options are in one configuration file.

    `podsOnNodeSyncParallelism` is the number of workers that list the pods of a new node. Without it KWOK
    0.8.0 starts none, and pods that were bound before KWOK saw their node never run.
    """
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 16,
            "nodeLeaseParallelism": 4,
            "podsOnNodeSyncParallelism": 4,
        },
    }
    path = places.run / "kwok.yaml"
    path.write_text("---\n".join([yaml.safe_dump(options), *(stage.read_text() for stage in stages)]))
    return [
        f"--kubeconfig={places.kubeconfig('kwok')}",
        f"--config={path}",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE_ANNOTATION}=fake",
        f"--node-lease-duration-seconds={node_lease_seconds}",
        f"--server-address=127.0.0.1:{places.kwok_port}",
    ]
