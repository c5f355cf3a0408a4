"""Benchmarks: run by hand, figures committed under results/. Speed is always a ratio measured in one run."""
