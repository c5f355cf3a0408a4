"""Workloads: the kinds of objects whose pods are gangs without a PodGroup, one file each. They hold no code.

To add one: a file here with a `WorkloadKind`, a line in `known.py`, and the right to list and watch the kind.
"""
