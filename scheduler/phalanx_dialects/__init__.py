"""For users of other batch schedulers: `phalanx convert` writes their objects as those of Phalanx."""
