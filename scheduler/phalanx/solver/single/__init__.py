"""Places a single gang: closed form, dynamic program, greedy search, and branch and bound.

The backends in the order in which `solver.engine` tries them:

- `closed_form`: one role without topology; O(nodes log nodes), optimal.
- `tree_dp`: one role on a tree of domains; a tree knapsack (`fewest_domains`, `tree_knapsack`), optimal.
- `branch_and_bound`: everything else. Branches are domains (`scopes`); the lower bounds are relaxations
  (`bounds`, `cost_bounds`, `tightness_bounds`, `traffic_bounds`); the incumbents come from greedy search
  (`greedy`, `greedy_subgroups`, `best_fit`) and local search (`local_search`, and `pair_search` where it
  matters which pods are near each other). Branches that stay open are solved with CP-SAT (`counting`).

`anti_affinity` reformulates rules before all of them; `tie_breaking` chooses among equal placements after
them.
"""
