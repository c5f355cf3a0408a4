"""A local control plane of real components (etcd, kube-apiserver, controllers, KWOK) for tests and
benchmarks.

The scheduler does not import this package.
"""
