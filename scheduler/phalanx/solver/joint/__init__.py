"""Admits many gangs together: the set of the greatest total value that fits.

One CP-SAT model (`model`) counts the pods of all gangs per group of equal nodes, like the model of a single
gang. A gang appears in it as admitted or not, and with the domains of its rules (`arrays`). `hand_out` turns
the counts into assignments, and `sequential` then places each gang again while the others are fixed.

`engine.admit` is the entry point. `problem` holds the data and the independent check of an answer.
"""
