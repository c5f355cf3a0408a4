"""Devices of Dynamic Resource Allocation: pools, claims, selectors, and the allocation for one node."""
