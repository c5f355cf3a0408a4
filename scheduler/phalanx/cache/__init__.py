"""What the scheduler knows of the cluster: events in, changes and snapshots out. No I/O.

`cache.py` is the whole of it; each kind of object has its table, `ledger.py` counts what is used.
"""
