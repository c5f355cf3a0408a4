"""Placement of a single gang: closed forms, dynamic programs, greedy search, branch and bound."""
