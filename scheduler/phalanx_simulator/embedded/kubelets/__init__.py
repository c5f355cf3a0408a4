"""Fake kubelets: admission, start and end of pods on nodes, and the pod statuses that they write."""
