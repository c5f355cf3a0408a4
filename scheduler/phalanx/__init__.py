"""Phalanx, a batch scheduler for Kubernetes GPU clusters.

The `__init__.py` of each package says what belongs in it. Read `cycle.py` first.
"""
