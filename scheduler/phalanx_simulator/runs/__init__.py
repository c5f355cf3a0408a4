"""Whole simulated runs: a cluster, jobs, faults, checks and a summary."""
