"""The running scheduler: wires all parts, follows the cluster, runs cycles, dispatches decisions, reports."""
