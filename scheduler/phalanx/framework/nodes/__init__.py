"""Nodes of a session: facts that follow from nodes alone, health, topology, affinity to running pods."""
