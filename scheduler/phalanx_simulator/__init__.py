"""The simulated world: an in-memory API server, kubelets, controllers, workloads."""
