"""A cluster inside one process: API server, kubelets and controllers."""
