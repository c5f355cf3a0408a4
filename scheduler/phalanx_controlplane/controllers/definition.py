"""What has to be known about a published controller to build it and to run it outside of a cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from phalanx_controlplane.programs import Program
from phalanx_controlplane.resources import module_dir

Manifest = dict[str, Any]


class Place(Struct, frozen=True, kw_only=True):
    """Folder, credentials and ports of one running controller. Ports are on 127.0.0.1."""

    folder: Path
    """Its working folder, and the folder that it takes for the temporary one."""
    kubeconfig: Path
    api_port: int
    """The port of the API server."""
    health_port: int
    metrics_port: int
    webhook_port: int

    @property
    def configuration(self) -> Path:
        """The configuration file."""
        return self.folder / "configuration.yaml"

    @property
    def certificates(self) -> Path:
        """The folder of `tls.crt` and `tls.key`.

        Webhook servers of controller-runtime look here, in their temporary folder, by default.
        """
        return self.folder / "k8s-webhook-server" / "serving-certs"


def no_configuration(_place: Place) -> Manifest:
    """The content of a configuration file that is not read."""
    return {}


def no_environment(_place: Place) -> dict[str, str]:
    """No environment variables."""
    return {}


def no_objects(_place: Place) -> Sequence[Manifest]:
    """No objects."""
    return ()


class Controller(Struct, frozen=True, kw_only=True):
    """A published controller.

    `crds`, `webhooks` and `webhook_patches` are patterns of files of its module.
    """

    name: str
    module: str
    """The folder of deploy/controllers that pins its version."""
    source: str
    package: str
    namespace: str
    """The namespace of its service account, which it uses for its own objects."""
    crds: tuple[str, ...]
    command: Callable[[Place], list[str]]
    """Its arguments."""
    environment: Callable[[Place], dict[str, str]] = no_environment
    """Environment variables beside KUBECONFIG and TMPDIR."""
    objects: Callable[[Place], Sequence[Manifest]] = no_objects
    """Objects that its installation creates, and that it or its users need."""
    configuration: Callable[[Place], Manifest] = no_configuration
    webhooks: str = ""
    webhook_patches: tuple[str, ...] = ()
    """Patches of kustomize that its own installation applies to the webhooks."""
    ready_url: str = "http://127.0.0.1:{health_port}/readyz"
    on_all_addresses: bool = False
    """Whether it listens on more than loopback, which no flag changes."""
    needs: tuple[str, ...] = ()
    """Names of controllers without which it does not work."""
    fixed_ports: tuple[int, ...] = ()
    """Ports on which it listens whatever its flags say."""
    fixed_files: tuple[str, ...] = ()
    """Files for which it waits outside of its folder. Empty ones do, and they stay."""

    @property
    def program(self) -> Program:
        """The program and the files of its module."""
        webhooks = (self.webhooks,) if self.webhooks else ()
        return Program(
            name=self.name,
            module=module_dir("controllers") / self.module,
            cache=f"controllers/{self.name}",
            source=self.source,
            package=self.package,
            files=(*self.crds, *webhooks, *self.webhook_patches),
        )
