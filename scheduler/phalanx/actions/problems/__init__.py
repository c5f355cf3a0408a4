"""Build placement problems from demands, and turn solutions into placements."""
