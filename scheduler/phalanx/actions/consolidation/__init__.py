"""Gangs that are moved so that another one fits."""
