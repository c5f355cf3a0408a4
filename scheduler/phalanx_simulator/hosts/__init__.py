"""Simulated hosts of the scheduler: virtual time, network and processes."""
