"""Explains infeasible problems: the largest part that fits, a conflict of rules, and relaxations.

`explain` is the entry point. The conflict is an irreducible infeasible subset found by the deletion filter
(Chinneck and Dravnieks, 1991). Relaxations are single changes that make the problem feasible;
`missing_capacity` computes how much must be freed where. All of it is bounded by a number of feasibility
tests (`feasibility`).
"""
