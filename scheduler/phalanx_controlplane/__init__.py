"""A real local control plane (etcd, kube-apiserver, controllers, KWOK) for demo, tests and benchmarks.

Nothing here is part of the scheduler, and the scheduler imports none of it.
"""
