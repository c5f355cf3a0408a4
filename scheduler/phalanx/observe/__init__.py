"""Metrics, logs and traces, and the ports through which other rooms report."""
