"""Read how to reach a cluster: from a kubeconfig as kubectl reads it, or from the service account of a pod.

It is read here, because the libraries that do it bring a client of the whole API, whose import takes a
quarter of a second: commands that a user waits for start with this.
"""

import base64
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from msgspec import Struct

from phalanx.clock import SystemClock
from phalanx.model.api.values import parse_time, since_epoch

_DEFAULT_FILE: Final = "~/.kube/config"
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FOLDER: Final = "folder"
"""A field of clusters and users that is added here: of the file that names them, for its relative paths."""

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
    certificate: tuple[bytes, bytes] | None = None
    """The client's certificate and its key, which `tls` has loaded."""


class Source:
    """Reads the kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config."""

    def __init__(self, path: str | None, context: str | None) -> None:
        self._in_cluster = path is None and context is None and _HOST in os.environ
        self._path = path
        self._context = context
        self._granted: Values = {}
        """What the exec plugin of the kubeconfig answered last."""

    def read(self, *, refused: bool = False) -> Access:
        """Read all again. An exec plugin runs again if its answer has expired or was refused.

        Raises NoCluster.
        """
        if refused or _is_expired(self._granted):
            self._granted = {}
        try:
            return _of_service_account() if self._in_cluster else self._access()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
            name = "the pod's service account" if self._in_cluster else _files(self._path)
            found = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise NoCluster(f"no cluster to connect to: tried {name}: {found}") from error

    def _access(self) -> Access:
        config = _merged(_files(self._path))
        context = _named(config, "context", self._context or config["current-context"])
        cluster = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"]) if context.get("user") else {}
        server = cluster["server"].rstrip("/")
        if not server.startswith(("http://", "https://")):
            raise ValueError(f"the server {server} is not an address of http or https")
        if "exec" in user:
            self._granted = self._granted or _granted(user["exec"])
        certificate = _certificate(user, self._granted)
        return Access(
            server=server,
            namespace=context.get("namespace") or "",
            authorization=_authorization(user, self._granted),
            tls=_tls(cluster, certificate) if server.startswith("https://") else None,
            server_name=cluster.get("tls-server-name") or "",
            proxy=cluster.get("proxy-url") or "",
            certificate=certificate,
        )


def contexts(path: str | None) -> list[str]:
    """The names of all contexts, for completion; empty if no file can be read."""
    try:
        return [str(each["name"]) for each in _merged(_files(path))["contexts"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return []


def load_certificate(tls: ssl.SSLContext, certificate: tuple[bytes, bytes]) -> None:
    """Load a certificate of the client and its key. OpenSSL reads them from files only."""
    with TemporaryDirectory() as place:
        paths = [Path(place) / name for name in ("certificate", "key")]
        for path, content in zip(paths, certificate, strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        tls.load_cert_chain(*map(str, paths))


# --- files --------------------------------------------------------------------------------------------------


def _files(path: str | None) -> str:
    return path or os.environ.get("KUBECONFIG") or _DEFAULT_FILE


def _merged(names: str) -> Values:
    """All files in one: the first that names something counts. Files that do not exist are left out."""
    merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    files = [Path(name).expanduser() for name in names.split(os.pathsep) if name]
    read = [(file.parent, yaml.load(file.read_bytes(), _LOADER)) for file in files if file.exists()]
    if not read:
        raise FileNotFoundError("there is no such file; --kubeconfig or $KUBECONFIG names another one")
    for folder, config in read:
        if not isinstance(config, dict):
            raise ValueError("a kubeconfig is a map")
        for kind in ("clusters", "users"):
            merged[kind] += list(_with_folder(config.get(kind) or (), kind[:-1], folder))
        merged["contexts"] += config.get("contexts") or ()
        if config.get("current-context"):
            merged.setdefault("current-context", config["current-context"])
    return merged


def _with_folder(entries: Any, field: str, folder: Path) -> Iterator[Values]:
    for entry in entries:
        yield {**entry, field: {**(entry.get(field) or {}), _FOLDER: folder}}


def _named(config: Values, kind: str, name: str) -> Values:
    """The first entry of this name. Raises ValueError."""
    for entry in config[f"{kind}s"]:
        if entry["name"] == name:
            values: Values = entry[kind]
            return values
    raise ValueError(f"there is no {kind} {name}")


def _content(values: Values, field: str) -> bytes:
    """The content of a field that is given as base64, or as the name of a file; empty if it is not given."""
    if values.get(f"{field}-data"):
        return base64.b64decode(values[f"{field}-data"])
    return (values[_FOLDER] / values[field]).read_bytes() if values.get(field) else b""


# --- credentials --------------------------------------------------------------------------------------------


def _of_service_account() -> Access:
    host = os.environ[_HOST]
    host = f"[{host}]" if ":" in host else host
    token = (_SERVICE_ACCOUNT / "token").read_text().strip()
    if not token:
        raise ValueError("the token is empty")
    return Access(
        server=f"https://{host}:{os.environ[_PORT]}",
        authorization=f"Bearer {token}",
        tls=_context((_SERVICE_ACCOUNT / "ca.crt").read_bytes()),
    )


def _authorization(user: Values, granted: Values) -> str:
    file = user.get("tokenFile")
    token = granted.get("token") or (file and (user[_FOLDER] / file).read_text()) or user.get("token")
    provided = (user.get("auth-provider") or {}).get("config") or {}
    token = token or provided.get("id-token") or provided.get("access-token")
    if token:
        return f"Bearer {token.strip()}"
    if not granted and "username" in user and "password" in user:
        return "Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    return ""


def _certificate(user: Values, granted: Values) -> tuple[bytes, bytes] | None:
    if granted.get("clientCertificateData"):
        return granted["clientCertificateData"].encode(), granted["clientKeyData"].encode()
    certificate = _content(user, "client-certificate")
    return (certificate, _content(user, "client-key")) if certificate else None


def _granted(plugin: Values) -> Values:
    """Run an exec plugin. Its answer has a token or a client certificate. Raises ValueError and OSError."""
    import subprocess

    version, command = plugin["apiVersion"], str(plugin["command"])
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": sys.stdout.isatty()}}
    variables = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    done = subprocess.run(
        [command, *(plugin.get("args") or ())],
        env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"{command} failed with {done.returncode}: {done.stderr.decode().strip()}")
    answer = json.loads(done.stdout)
    if answer["apiVersion"] != version:
        raise ValueError(f"{command} answered in version {answer['apiVersion']}, not {version}")
    status: Values = answer["status"]
    if not status.get("token") and not status.get("clientCertificateData"):
        raise ValueError(f"{command} answered without a token and without a certificate")
    return status


def _is_expired(granted: Values) -> bool:
    until = parse_time(granted.get("expirationTimestamp") or "")
    return until is None or since_epoch(until) * 1000 <= SystemClock().now_ms()


def _tls(cluster: Values, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    tls = _context(_content(cluster, "certificate-authority"))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        load_certificate(tls, certificate)
    return tls


def _context(authority: bytes) -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") or None)
    # Certificates of many clusters lack the extensions that Python 3.13 requires and Go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls
