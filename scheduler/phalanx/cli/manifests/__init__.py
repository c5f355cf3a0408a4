"""Manifests: files -> documents -> validated objects -> objects as an API server stores them.

`read.py` is the entry: `documents` parses files, `schemas`, `checker` and `kubernetes_rules` find the errors,
`admission` adds what an API server would add.
"""
