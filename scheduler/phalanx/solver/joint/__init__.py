"""Admits many gangs together: the set of the greatest total value that fits.

A logic-based Benders decomposition (Hooker and Ottosson, Math. Programming 96, 2003). The master problem
(`master`, `master_model`) admits gangs and distributes their components (`components`) to regions, which are
the domains of one topology level. It relaxes the nodes of a region to valid inequalities
(`valid_inequalities`). A subproblem per region (`subproblem`, `inner_domains`) places the pods exactly. A
region that cannot hold its pods adds a Benders cut, strengthened by symmetry (`symmetry`), and `benders`
solves the master problem again. `sequential` is the one-by-one order that joint admission never falls below.

`engine.admit` is the entry point. `problem` holds the data and the independent check of an answer.
"""
