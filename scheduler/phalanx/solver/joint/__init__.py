"""Many gangs at once: which of them start together, so that first come does not starve others for nothing.

`engine.admit` is the way in. `problem` is the data; `pieces` are what of a gang lies in one domain, and what
may lie anywhere; `field` reads all as arrays, region by region; `cuts` are what a region can hold at most,
and `clusters` what there must be room for at once; `master` chooses gangs and the regions of their pieces
with CP-SAT, as `questions` ask; `region` seats them inside one region, exactly, by what they claim of its
domains (`claims`, `space`), and `rounds` tells the master what it must not ask again where that fails;
`seating` names nodes; `polish` certifies each gang's own placement; `checker` checks all again.
"""
