"""Placement as mathematics: closed forms, dynamic programs, CP-SAT, certificates and explanations.

The solver knows no policy and no Kubernetes objects beyond names: actions build a Problem, apply the Answer.
`engine.place` is the way in; it asks `closed`, `tree_dp` and `search`, cheapest first, and lets nothing out
that `checker` does not pass. `joint.engine.admit` answers for many gangs at once. `explain.explain` says why
there is no answer. A new rule is read in `rulebook`, checked in `checker`, kept by greedy search in `fill`,
and is one more function in `constraints`; `joint` declines it until its `field` knows it. What can be said as
amounts and budgets, such as pods that must be apart (`apart`), need not be told to any of them.
"""
