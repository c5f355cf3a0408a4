"""Credentials of a local API server: static tokens, service-account key, kubeconfig files.

The API server creates its serving certificate itself, so no cryptography library is needed.
"""

import base64
import secrets
from pathlib import Path
from typing import Any, Final

import yaml

ADMINS: Final = "system:masters"
NODES: Final = "system:nodes"
_P256: Final = bytes.fromhex("06082a8648ce3d030107")
"""DER encoding of the object identifier of the curve P-256."""


def token() -> str:
    """Create a random bearer token."""
    return secrets.token_urlsafe(24)


def write_token_file(path: Path, users: dict[str, tuple[str, str]]) -> None:
    """Write the static token file of the API server. `users`: name to (token, group)."""
    lines = [f'{secret},{name},{name},"{group}"\n' for name, (secret, group) in users.items()]
    path.write_text("".join(lines))


def write_service_account_key(path: Path) -> None:
    """Write a new P-256 private key as PEM.

    RFC 5915 without the optional public key, which Go computes.
    """
    scalar = secrets.randbits(255).to_bytes(32)  # below the order of the curve
    body = b"\x02\x01\x01" + _der(0x04, scalar) + _der(0xA0, _P256)
    text = base64.b64encode(_der(0x30, body)).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    path.write_text("\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""]))


def write_kubeconfig(path: Path, *, url: str, certificate: Path, user: str, secret: str) -> None:
    """Write a kubeconfig with one context. The serving certificate is embedded."""
    authority = base64.b64encode(certificate.read_bytes()).decode()
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": secret}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))


def _der(tag: int, content: bytes) -> bytes:
    """Encode one DER element of fewer than 128 bytes."""
    return bytes((tag, len(content))) + content
