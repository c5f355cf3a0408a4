"""Realistic campaigns: faults at published rates, jobs from a trace or with its statistics."""
