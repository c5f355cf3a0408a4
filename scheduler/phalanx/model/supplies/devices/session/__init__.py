"""The devices of one session: what pods need, what nodes have, and what claims get."""
