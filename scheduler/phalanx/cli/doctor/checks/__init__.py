"""The checks: each file has a function `check` from what was read to findings."""
