"""The wire form of Kubernetes objects as typed structs: only the fields that the scheduler reads or writes.

`phalanx.py` and `objects.py` hold our own kinds, `core.py` Kubernetes', `meta.py` what all share, `kinds.py`
the registry of all of them.
"""
