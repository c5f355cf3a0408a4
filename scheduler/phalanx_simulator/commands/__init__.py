"""The commands `phalanx demo`, `simulate` and `drill`."""
