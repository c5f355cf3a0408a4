"""Fake kubelets: what runs on each node, and how pods start and end there."""
