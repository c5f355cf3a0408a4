"""The CP-SAT model that counts pods per role and group of nodes."""
