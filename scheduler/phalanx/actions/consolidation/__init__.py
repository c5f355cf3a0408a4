"""Gangs that are moved to other nodes so that another gang fits."""
