"""`phalanx config`: check, show and explain the scheduler's configuration file."""
