"""The parts of the end-to-end benchmarks: workloads, contenders, observer, resource usage of processes."""
