"""Implementations of `Decider`, which runs cycles: in the event loop, in a thread, or in a process."""
