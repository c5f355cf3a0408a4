"""The demands of gangs, and the order in which a cycle tries them."""
