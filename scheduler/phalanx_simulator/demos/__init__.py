"""The acts of `phalanx demo`, one file each, and what they share: clusters, jobs, the tree, drawing."""
