"""How each view is printed for people."""
