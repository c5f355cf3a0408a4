"""Online placement of single pods with shares of GPUs on the OpenB cluster, beside the published policies."""
