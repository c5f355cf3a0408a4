"""Metrics, logs, traces and recorded cycles, and the protocols through which other packages report."""
