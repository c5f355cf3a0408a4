"""Exact and heuristic placement of gangs on nodes, with certificates and explanations.

The solver knows neither policy nor Kubernetes objects. Actions build a problem as data and apply the answer.
Every answer of a backend is validated by `checker`, which shares no code with the backends: each rule checks
placements by itself.

- `engine.place` places one gang (`single`, `counting`): closed form, dynamic program, branch and bound.
- `joint.engine.admit` admits many gangs together: a Benders decomposition.
- `preemption.engine.choose_victims` chooses a cheapest set of victims.
- `defragmentation.engine.plan_moves` plans the fewest moves that make a demand fit.
- `infeasibility.explain.explain` says why a problem has no placement and which relaxations give one.
- `cells.choose_cells` selects disjoint domains; `fragmentation` computes node costs.

A new kind of rule is a module of `phalanx.rules` and needs no change here. A new primitive is grouped in
`problem_rules`, obeyed by greedy search, added as a function to `counting.constraints`, and stated or left
out in `joint.arrays`. Primitives that can be written as amounts and budgets need none of this: see
`single.anti_affinity`.
"""
