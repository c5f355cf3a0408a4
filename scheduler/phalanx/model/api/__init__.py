"""API objects of Kubernetes as typed structs: only the fields that the scheduler reads or writes.

`pod_groups.py` and `queues.py` hold our own kinds, `core.py` those of Kubernetes, `meta.py` the common parts,
and `kinds.py` the registry.
"""
