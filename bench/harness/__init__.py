"""What the end-to-end benchmarks share: a workload, the contenders, an observer, and what processes used."""
