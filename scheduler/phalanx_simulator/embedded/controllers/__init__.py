"""The controllers of the embedded cluster, as in kube-controller-manager, and a pod-by-pod scheduler."""
