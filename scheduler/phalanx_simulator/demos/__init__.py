"""The acts of `phalanx demo`, one file each, and their common parts."""
