"""Queues of a session: the tree, the ledger of what is used, guarantees and fair shares."""
