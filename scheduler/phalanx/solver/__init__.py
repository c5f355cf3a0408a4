"""Exact and heuristic placement of gangs on nodes, with certificates and explanations.

The solver knows neither policy nor Kubernetes objects. Actions build a problem as data and apply the answer.
Every answer of a backend is validated by `checker`, which shares no code with the backends.

- `engine.place` places one gang (`single`, `counting`): closed form, dynamic program, branch and bound.
- `joint.engine.admit` admits many gangs together: a Benders decomposition.
- `preemption.engine.choose_victims` chooses a cheapest set of victims.
- `defragmentation.engine.plan_moves` plans the fewest moves that make a demand fit.
- `infeasibility.explain.explain` says why a problem has no placement and which relaxations give one.
- `cells.choose_cells` selects disjoint domains; `fragmentation` computes node costs.

A new rule is compiled in `problem_rules`, checked in `checker`, obeyed by greedy search in `single.best_fit`,
and added as a function to `counting.constraints`. `joint` declines it until `joint.arrays` models it. Rules
that can be written as amounts and budgets need none of this: see `single.anti_affinity`.
"""
