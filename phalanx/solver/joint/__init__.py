"""Many gangs at once: which of them start together, so that first come does not starve others for nothing.

`engine.admit` is the way in. `problem` is the data; `field` reads it as arrays, region by region; `cuts` are
what a region can hold at most; `master` chooses gangs and their regions with CP-SAT, as `questions` ask;
`region` seats them inside one region, exactly, and `rounds` tells the master what it must not ask again where
that fails; `seating` names nodes; `polish` certifies each gang's own placement; `checker` checks all again.
"""
