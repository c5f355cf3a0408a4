"""Faults in the simulated cluster: plans, injectors by family, random profiles."""
