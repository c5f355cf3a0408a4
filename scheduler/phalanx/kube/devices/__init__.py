"""Writes claims before the pods that use them are bound, and waits until drivers have prepared devices."""
