"""What goes wrong in the simulated cluster: planned faults, injectors by family, profiles of chance."""
