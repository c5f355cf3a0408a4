"""`helm test`: whether some replica leads. The leader renews its Lease every few seconds."""

import json
import os
import pathlib
import ssl
import sys
import urllib.request
from datetime import UTC, datetime

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")

url = (
    f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    f"/apis/coordination.k8s.io/v1/namespaces/{os.environ['POD_NAMESPACE']}/leases/phalanx"
)
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"})
trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
    spec = json.load(answer)["spec"]
holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
if not holder or not renewed:
    sys.exit("nobody leads")
age = datetime.now(UTC) - datetime.fromisoformat(renewed)
print(f"{holder} leads, and renewed its Lease {age.total_seconds():.0f} s ago")
if age.total_seconds() > spec["leaseDurationSeconds"]:
    sys.exit("the Lease has expired")
