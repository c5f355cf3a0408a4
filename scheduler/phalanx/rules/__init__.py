"""Rules: constraints and preferences that join several pods, one module for each kind.

`problem.py` holds the placement problem and the base class `Rule`. A module holds the data of its kind, says
how the rule is relaxed and what it is called where it keeps a gang waiting, and checks a placement by itself.
Plugins make rules, and a foreign plugin may bring a kind of its own.
"""
