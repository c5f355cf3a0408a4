"""Drills: acts with a fault at every point where one can be, again and again; and load, with faults in it."""
