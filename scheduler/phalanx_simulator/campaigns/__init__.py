"""A realistic year of a GPU cluster: faults at published rates, jobs from a trace or of its statistics."""
