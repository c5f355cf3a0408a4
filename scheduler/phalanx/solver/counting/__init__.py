"""The counting model: pods per role and group of interchangeable nodes, solved with CP-SAT.

Counting removes the symmetry between pods of a role and between equal nodes. `node_groups` finds the groups
and turns counts into placements, `model` holds variables, objective and hints, `constraints` has a function
per constraint, and `exact` solves one scope lexicographically.
"""
