"""Published cases from which this project started: data, and one runner for all of them.

Each is played on a simulated cluster and on a real control plane, through the API alone.
"""
