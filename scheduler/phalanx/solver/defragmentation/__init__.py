"""Plans moves: the fewest running pods to place elsewhere so that a demand fits.

`greedy` clears one domain unit by unit with first fit; `exact` minimises pods, then cost, with CP-SAT.
`engine.plan_moves` is the entry point.
"""
