"""Read the usual kubeconfig quickly: a server, its authority, and a token or a client certificate.

Commands that a user waits for start with this. The library that reads every kubeconfig (exec plugins,
proxies, several merged files) takes a quarter of a second to import; it is used if this module returns None.
"""

import base64
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from msgspec import Struct

DEFAULT_FILE: Final = "~/.kube/config"
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"

_CLUSTER_FIELDS: Final = frozenset(
    {
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
        "extensions",
    }
)
_USER_FIELDS: Final = frozenset(
    {
        "token",
        "tokenFile",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "extensions",
    }
)
"""The fields that are understood here. A file with others is left to the library."""

Values = Mapping[str, Any]


class NoCluster(Exception):
    """There is no usable configuration; the message names what was tried."""


class Access(Struct, frozen=True):
    """The way to one API server, and what the context says."""

    server: str
    namespace: str = ""
    """The namespace of the context; empty if it names none."""
    authorization: str = ""
    """The header; empty where a client certificate or nothing is used."""
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """The name that the certificate of the server must have; empty for that of the address."""
    proxy: str = ""


def read_access(path: str | None, context: str | None) -> Access | None:
    """The access that a kubeconfig of the usual form describes; None if the library has to read it.

    `path` None: $KUBECONFIG or ~/.kube/config. A file that is missing or broken is left to the library too,
    which reports it.
    """
    if path is None and context is None and _IN_CLUSTER in os.environ:
        return None
    written = path or os.environ.get("KUBECONFIG") or DEFAULT_FILE
    names = [name for name in written.split(os.pathsep) if name]
    if len(names) != 1:
        return None
    file = Path(names[0]).expanduser()
    try:
        return _access(yaml.load(file.read_bytes(), _LOADER), context, file.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None


def contexts(path: str | None) -> list[str]:
    """The names of all contexts, for completion; empty if the file cannot be read."""
    names = (path or os.environ.get("KUBECONFIG") or DEFAULT_FILE).split(os.pathsep)
    found: list[str] = []
    for name in filter(None, names):
        try:
            config = yaml.load(Path(name).expanduser().read_bytes(), _LOADER)
            found += [str(each["name"]) for each in config.get("contexts") or ()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
            continue
    return found


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _access(config: Values, context: str | None, folder: Path) -> Access | None:
    chosen = _named(config["contexts"], context or config["current-context"], "context")
    cluster = _named(config["clusters"], chosen["cluster"], "cluster")
    user = _named(config.get("users") or (), chosen["user"], "user") if chosen.get("user") else {}
    known = set(cluster) <= _CLUSTER_FIELDS and set(user) <= _USER_FIELDS
    if not known or not cluster["server"].startswith(("http://", "https://")):
        return None
    return Access(
        server=cluster["server"].rstrip("/"),
        namespace=chosen.get("namespace") or "",
        authorization=_authorization(user, folder),
        tls=_tls(cluster, user, folder) if cluster["server"].startswith("https://") else None,
        server_name=cluster.get("tls-server-name") or "",
    )


def _named(entries: Any, name: str, field: str) -> Values:
    """The entry of this name. Raises KeyError."""
    found: Mapping[str, Values] = {each["name"]: each[field] or {} for each in entries}
    return found[name]


def _authorization(user: Values, folder: Path) -> str:
    file = user.get("tokenFile")
    token = (folder / file).read_text().strip() if file else user.get("token") or ""
    return f"Bearer {token}" if token else ""


def _tls(cluster: Values, user: Values, folder: Path) -> ssl.SSLContext:
    data = _decoded(cluster, "certificate-authority-data")
    file = cluster.get("certificate-authority")
    tls = ssl.create_default_context(
        cafile=str(folder / file) if file and not data else None, cadata=data.decode() if data else None
    )
    # Certificates of many clusters lack the extensions that Python 3.13 requires and Go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    _load_certificate(tls, user, folder)
    return tls


def _load_certificate(tls: ssl.SSLContext, user: Values, folder: Path) -> None:
    """Load the client certificate. OpenSSL reads it from files only."""
    with TemporaryDirectory() as place:
        paths: list[Path] = []
        for field in ("client-certificate", "client-key"):
            data = _decoded(user, f"{field}-data")
            if data:
                paths.append(Path(place) / field)
                paths[-1].touch(mode=0o600)
                paths[-1].write_bytes(data)
            elif user.get(field):
                paths.append(folder / user[field])
        if paths:
            tls.load_cert_chain(*map(str, paths))


def _decoded(values: Values, field: str) -> bytes:
    return base64.b64decode(values.get(field) or "")
