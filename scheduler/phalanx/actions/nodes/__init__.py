"""Nodes as one problem sees them: which are the same, what of them is of use, which are taken first."""
