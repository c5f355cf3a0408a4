"""Micro-benchmarks of the way of a pod, with budgets; `python -m bench.micro` runs them."""
