"""Invariants of every run: named checks against the API server's state, and coverage points.

Each file holds the checks of one subject. docs/simulation.md lists their names (S1 to S26: safety, L1 to L13:
liveness) and what they require. A check reads the API server's state, not the state of a scheduler; the
docstring of a check that reads a scheduler's state says so.
"""
