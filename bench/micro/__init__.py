"""Micro-benchmarks of each scheduling step of a pod, with budgets; `python -m bench.micro` runs them."""
