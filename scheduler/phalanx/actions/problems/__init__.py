"""A demand and the cluster as a problem for the solver, and its answer as seats on nodes."""
