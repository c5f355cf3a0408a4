"""Drills: an operation repeated with a fault at each possible point, and load tests with faults."""
