"""A simulated Kubernetes cluster, and the test equipment around it."""
