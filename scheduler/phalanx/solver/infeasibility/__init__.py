"""Explanations of infeasible problems: conflicting rules, relaxations, missing capacity."""
