"""The controllers that are to be had: where each comes from, and how it is started outside of a cluster."""

import os
from collections.abc import Callable, Iterable
from typing import Final

from phalanx_controlplane.controllers.definition import Controller, Manifest, Place


class UnknownController(Exception):
    """There is no controller of this name. The message lists all names."""


def _manager_configuration(api_version: str) -> Callable[[Place], Manifest]:
    """The configuration file of jobset and of lws."""

    def configuration(place: Place) -> Manifest:
        found = _common_configuration(place, api_version)
        found["webhook"]["certDir"] = str(place.certificates)
        return found | {"internalCertManagement": {"enable": False}}

    return configuration


def _trainer_configuration(place: Place) -> Manifest:
    found = _common_configuration(place, "config.trainer.kubeflow.org/v1alpha1")
    return found | {"certManagement": {"enable": False}}


def _common_configuration(place: Place, api_version: str) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 500, "burst": 500},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health_port}"},
        "webhook": {"host": "127.0.0.1", "port": place.webhook_port},
    }


def _with_configuration(place: Place) -> list[str]:
    return [f"--config={place.configuration}"]


def _kuberay(place: Place) -> list[str]:
    return [
        "--enable-leader-election=false",
        f"--metrics-addr=127.0.0.1:{place.metrics_port}",
        f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
    ]


def _mpi_operator(place: Place) -> list[str]:
    return [f"--kubeConfig={place.kubeconfig}", "--kube-api-qps=500", "--kube-api-burst=500"]


def _volcano(place: Place) -> list[str]:
    return [
        f"--kubeconfig={place.kubeconfig}",
        "--leader-elect=false",
        "--enable-healthz",
        f"--healthz-address=127.0.0.1:{place.health_port}",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
    ]


def _training_operator(place: Place) -> list[str]:
    """All kinds but its MPIJob, which has the name of the CRD of mpi-operator."""
    kinds = ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")
    return [
        *(f"--enable-scheme={kind}" for kind in kinds),
        f"--metrics-bind-address=127.0.0.1:{place.metrics_port}",
        f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
        f"--webhook-server-port={place.webhook_port}",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
    ]


def _spark_operator(place: Place) -> list[str]:
    """It runs as many programs in Java at the same time as it has threads: ten by default."""
    return [
        *("controller", "start"),
        "--controller-threads=2",
        "--namespaces=",
        f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
    ]


def _spark_webhook(place: Place) -> list[str]:
    """With cert-manager it takes certificates from a Secret; otherwise it makes some that name a Service."""
    return [
        *("webhook", "start"),
        "--namespaces=",
        "--enable-cert-manager",
        f"--webhook-cert-dir={place.certificates}",
        f"--webhook-port={place.webhook_port}",
        f"--health-probe-bind-address=127.0.0.1:{place.health_port}",
    ]


def _spark_certificates(place: Place) -> list[Manifest]:
    """What cert-manager would make."""
    certificate, key = (place.certificates / name for name in ("tls.crt", "tls.key"))
    files = {"ca.crt": certificate, "tls.crt": certificate, "tls.key": key}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "spark-operator-webhook-certs", "namespace": "spark-operator"},
            "stringData": {name: path.read_text() for name, path in files.items()},
        }
    ]


def _spark_environment(place: Place) -> dict[str, str]:
    """What it needs to run spark-submit: Spark itself, and the API server as a pod finds it."""
    return {
        "SPARK_HOME": os.environ.get("SPARK_HOME", ""),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(place.api_port),
    }


_TRAINING_OPERATOR_CERTIFICATES: Final = (
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "training-operator-webhook-cert", "namespace": "kubeflow"},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
    },
)
"""It writes certificates of its own into these, and does not start without them. Nothing here uses them."""

_VOLCANO_QUEUES: Final = tuple(
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }
    for name in ("root", "default")
)
"""Volcano's scheduler creates them, which does not run here."""

CONTROLLERS: Final = (
    Controller(
        name="jobset",
        module="workloads",
        source="sigs.k8s.io/jobset",
        package="sigs.k8s.io/jobset",
        namespace="jobset-system",
        crds=("config/components/crd/bases/*.yaml",),
        webhooks="config/components/webhook/manifests.yaml",
        webhook_patches=("config/components/webhook/patches/*ating-patch.yaml",),
        command=_with_configuration,
        configuration=_manager_configuration("config.jobset.x-k8s.io/v1alpha1"),
    ),
    Controller(
        name="lws",
        module="workloads",
        source="sigs.k8s.io/lws",
        package="sigs.k8s.io/lws/cmd",
        namespace="lws-system",
        crds=("config/crd/bases/*.yaml",),
        webhooks="config/webhook/manifests.yaml",
        webhook_patches=("config/webhook/*ating-patch.yaml",),
        command=_with_configuration,
        configuration=_manager_configuration("config.lws.x-k8s.io/v1alpha1"),
    ),
    Controller(
        name="kuberay",
        module="workloads",
        source="github.com/ray-project/kuberay/ray-operator",
        package="github.com/ray-project/kuberay/ray-operator",
        namespace="ray-system",
        crds=("config/crd/bases/*.yaml",),
        command=_kuberay,
    ),
    Controller(
        name="mpi-operator",
        module="workloads",
        source="github.com/kubeflow/mpi-operator",
        package="github.com/kubeflow/mpi-operator/cmd/mpi-operator",
        namespace="mpi-operator",
        crds=("manifests/base/kubeflow.org_mpijobs.yaml",),
        command=_mpi_operator,
        ready_url="http://127.0.0.1:8080/healthz",
        fixed_ports=(8080,),
        on_all_addresses=True,
    ),
    Controller(
        name="trainer",
        module="workloads",
        source="github.com/kubeflow/trainer/v2",
        package="github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
        namespace="kubeflow-system",
        crds=("manifests/base/crds/trainer*.yaml",),
        webhooks="manifests/base/webhook/manifests.yaml",
        command=_with_configuration,
        configuration=_trainer_configuration,
        needs=("jobset",),
    ),
    Controller(
        name="training-operator",
        module="training-operator",
        source="github.com/kubeflow/training-operator",
        package="github.com/kubeflow/training-operator/cmd/training-operator.v1",
        namespace="kubeflow",
        crds=("manifests/base/crds/kubeflow.org_[!m]*.yaml",),
        webhooks="manifests/base/webhook/manifests.yaml",
        command=_training_operator,
        objects=lambda _place: _TRAINING_OPERATOR_CERTIFICATES,
        fixed_files=("/tmp/k8s-webhook-server/serving-certs/tls.crt",),
        on_all_addresses=True,
    ),
    Controller(
        name="spark-operator",
        module="spark-operator",
        source="github.com/kubeflow/spark-operator/v2",
        package="github.com/kubeflow/spark-operator/v2/cmd/operator",
        namespace="spark-operator",
        crds=("config/crd/bases/*.yaml",),
        command=_spark_operator,
        environment=_spark_environment,
        needs=("spark-operator-webhook",),
    ),
    Controller(
        name="spark-operator-webhook",
        module="spark-operator",
        source="github.com/kubeflow/spark-operator/v2",
        package="github.com/kubeflow/spark-operator/v2/cmd/operator",
        namespace="spark-operator",
        crds=("config/crd/bases/*.yaml",),
        webhooks="config/webhook/manifests.yaml",
        command=_spark_webhook,
        on_all_addresses=True,
        objects=_spark_certificates,
    ),
    Controller(
        name="volcano",
        module="volcano",
        source="volcano.sh/volcano",
        package="volcano.sh/volcano/cmd/controller-manager",
        namespace="volcano-system",
        crds=("config/crd/volcano/bases/*.yaml", "config/crd/jobflow/bases/*.yaml"),
        command=_volcano,
        environment=lambda place: {"DEBUG_SOCKET_DIR": str(place.folder)},
        objects=lambda _place: _VOLCANO_QUEUES,
        ready_url="http://127.0.0.1:{health_port}/healthz",
    ),
)


def named(names: Iterable[str]) -> list[Controller]:
    """The controllers of these names and those that they need, each once. Raises UnknownController."""
    found: dict[str, Controller] = {}
    for name in names:
        controller = _by_name(name)
        found |= {each.name: each for each in [*named(controller.needs), controller]}
    return list(found.values())


def _by_name(name: str) -> Controller:
    for controller in CONTROLLERS:
        if controller.name == name:
            return controller
    raise UnknownController(f"no controller {name!r}; there are {', '.join(c.name for c in CONTROLLERS)}")
