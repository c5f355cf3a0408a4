"""Nodes as placement problems see them: constraints of a gang, classes of equal nodes, and their order."""
