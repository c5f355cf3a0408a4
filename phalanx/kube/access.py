"""The plain ways into a cluster: a pod's service account, and a kubeconfig that names a token.

kubernetes-asyncio reads every kubeconfig, but importing it takes a quarter of a second and 40 MiB. What is
read here means the same there; whatever goes beyond it (plugins, certificates of users, several files, a file
that is wrong) is left to the library.
"""

import base64
import os
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml
from msgspec import Struct

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_NOT_PLAIN: Final = (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError)


class Access(Struct, frozen=True):
    """How to reach an API server, and as whom.

    `header` is the authorization header, empty for none; where there is a `token_file` it is read again now
    and then. The authority's certificates are in a file or given as PEM; without either those of the machine
    count. `certificate` and `key` are files.
    """

    host: str
    header: str = ""
    token_file: Path | None = None
    authority_file: str | None = None
    authority: str | None = None
    verifies: bool = True
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None
    proxy: str | None = None


class _User(Struct, frozen=True, forbid_unknown_fields=True):
    token: str = ""
    tokenFile: str = ""  # noqa: N815 a field of the file


class _Cluster(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Context(Struct, frozen=True):
    cluster: str
    user: str


class _Kubeconfig(Struct, frozen=True, rename="kebab"):
    """Entries as they are written: only those that the context names need be plain."""

    clusters: tuple[dict[str, Any], ...]
    users: tuple[dict[str, Any], ...]
    contexts: tuple[dict[str, Any], ...]
    current_context: str = ""


T = TypeVar("T")


def service_account() -> Access:
    """That of the pod in which we run. Raises OSError, KeyError or ValueError where there is none."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    token_file = SERVICE_ACCOUNT / "token"
    return Access(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        header=header_from(token_file),
        token_file=token_file,
        authority_file=str(SERVICE_ACCOUNT / "ca.crt"),
    )


def plain_kubeconfig(file: str, context: str | None) -> Access | None:
    """What this one file says of the context, else of its current one; None where it is not plain."""
    path = Path(file).expanduser()
    try:
        config = msgspec.convert(yaml.safe_load(path.read_text()), _Kubeconfig)
        chosen = _entry(config.contexts, "context", context or config.current_context, _Context)
        cluster = _entry(config.clusters, "cluster", chosen.cluster, _Cluster)
        return _access(path.parent, cluster, _entry(config.users, "user", chosen.user, _User))
    except _NOT_PLAIN:
        return None


def header_from(token_file: Path) -> str:
    """The authorization header with the token in this file. Raises ValueError where it is empty."""
    token = token_file.read_text().strip()
    if not token:
        raise ValueError(f"{token_file} is empty")
    return f"Bearer {token}"


def _entry(entries: tuple[dict[str, Any], ...], key: str, name: str, kind: type[T]) -> T:
    (found,) = [each for each in entries if each.get("name") == name]
    return msgspec.convert(found.get(key), kind)


def _access(folder: Path, cluster: _Cluster, user: _User) -> Access:
    if bool(user.token) == bool(user.tokenFile):
        raise ValueError("expected one token")
    token_file = folder / user.tokenFile if user.tokenFile else None
    data, file = cluster.certificate_authority_data, cluster.certificate_authority
    if not cluster.server.startswith("https"):
        data = file = None
    return Access(
        host=cluster.server.rstrip("/"),
        header=header_from(token_file) if token_file is not None else f"Bearer {user.token.strip()}",
        token_file=token_file,
        authority_file=str((folder / file).resolve(strict=True)) if file and not data else None,
        authority=base64.b64decode(data, validate=True).decode() if data else None,
        verifies=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy=cluster.proxy_url,
    )
