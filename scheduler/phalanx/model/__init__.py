"""Pure data: quantities, wire structs, nodes, pods, gangs, queues, topology, reasons, decisions, snapshot.

Everything here is a frozen struct or a pure function of frozen structs. No I/O, no clock, no policy.
"""
