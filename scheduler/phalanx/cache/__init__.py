"""Cluster state: applies events of API objects, and builds snapshots for cycles. No I/O.

`cache.py` is the entry point. Each kind of object has its own table; `usage.py` sums up what pods use.
"""
