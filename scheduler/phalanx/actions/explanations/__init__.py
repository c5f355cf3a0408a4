"""Explain why a gang waits and what would help."""
