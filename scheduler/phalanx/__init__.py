"""Phalanx, a batch scheduler for Kubernetes GPU clusters.

Each folder is one room of the house and says in its own `__init__.py` what belongs in it. Read `cycle.py`
first.
"""
