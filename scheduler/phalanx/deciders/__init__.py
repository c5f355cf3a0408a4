"""Where `decide` runs: in place, in a thread, or in a process. Each implements `Decider` and nothing else."""
