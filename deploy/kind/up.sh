#!/bin/sh
# Make a kind cluster with pretended GPUs and install Phalanx on it. Needs docker, kind and kubectl.
# Again on a running cluster: builds and installs anew. To remove everything: kind delete cluster --name phalanx
set -eu
cd "$(dirname "$0")/../.."

for tool in docker kind kubectl; do
  command -v "$tool" >/dev/null || { echo "$tool is needed and was not found" >&2; exit 1; }
done

kind get clusters | grep -qx phalanx || kind create cluster --config deploy/kind/cluster.yaml
docker build -f deploy/Dockerfile -t phalanx-scheduler:kind .
kind load docker-image phalanx-scheduler:kind --name phalanx

k() { kubectl --context kind-phalanx "$@"; }

# The kubelet keeps extended resources that somebody else has written into a node's status.
for node in $(k get nodes -l '!node-role.kubernetes.io/control-plane' -o name); do
  k patch "$node" --subresource=status --type=merge -p '{"status": {"capacity": {"nvidia.com/gpu": "8"}}}'
done

k apply -k deploy/kind
k wait --for=condition=Established --timeout=60s crd/podgroups.scheduling.phalanx.dev \
  crd/queues.scheduling.phalanx.dev crd/topologies.scheduling.phalanx.dev
k apply -k deploy/examples
k -n phalanx-system rollout restart deployment/phalanx
k -n phalanx-system rollout status deployment/phalanx --timeout=180s
echo "Try: kubectl --context kind-phalanx apply -f deploy/kind/gang.yaml"
echo "     kubectl --context kind-phalanx get phpg,pods -o wide"
