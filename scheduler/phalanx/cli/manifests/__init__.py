"""Manifests as users write them: texts -> documents -> checked objects -> what an API server makes of them.

`read.py` is the way through: `sources` finds the texts, `documents` parses them, `inputs` picks the kinds
that matter, `schemas`, `checker` and `crd_rules` find every mistake, `admission` fills in what an API server
would.
"""
