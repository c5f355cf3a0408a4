"""Chooses victims: the cheapest set of eviction units whose end lets a demand fit.

A covering problem: the freed capacity must hold the demands, under eviction limits and quotas. `greedy` gives
incumbents, `presolve` a lower bound and a smaller problem, `exact` an optimal set with CP-SAT per domain.
`engine.choose_victims` is the entry point.
"""
