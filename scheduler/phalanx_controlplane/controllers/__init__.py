"""Published workload controllers (JobSet, Ray, ...), built and run against a local control plane."""
