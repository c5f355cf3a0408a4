"""Dialects: the API groups whose PodGroups are read, one file each. All of them become the same gangs.

To add one: a module with the structs of its objects and their kinds in `model/api`, a file here, and a line
in `known.py` and in `model/api/kinds.py`. The file says how a pod names its PodGroup and its role, how the
PodGroup is read, and what is written on its status. Its rights go into `deploy/base`, its page into
`docs/dialects`. Gangs of YuniKorn are no objects: their pods define them.
"""
