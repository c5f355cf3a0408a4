"""Invariants of every run: named checks against the API server's state, and coverage points.

Each file holds the checks of one subject. Their names (S1 to S23: safety, L1 to L13: liveness) and their
meaning are listed in docs/simulation.md. A check never asks a scheduler what it believes, except where the
belief itself is checked; its docstring says so.
"""
