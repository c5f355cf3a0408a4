"""Exhaustive drills: one short act, played again and again, with a fault at every point where one can be."""
