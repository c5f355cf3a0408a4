"""`phalanx doctor`: check an installation. One file per check, each a pure function of what was read."""
