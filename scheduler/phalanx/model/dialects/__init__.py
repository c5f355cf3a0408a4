"""Dialects: the API groups whose PodGroups are read, one file each. All of them become the same gangs.

To add one: a struct of its PodGroup in `model/api`, its kind in `model/api/kinds.py`, a file here, and a line
in `known.py`. The file says how a pod names its PodGroup and its role, how the PodGroup is read, and what is
written on its status. Its rights go into `deploy/base`, its page into `docs/dialects`. Gangs of YuniKorn are
no objects: their pods define them.
"""
