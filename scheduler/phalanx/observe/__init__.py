"""Metrics, logs and recorded cycles, and the protocols through which other packages report."""
