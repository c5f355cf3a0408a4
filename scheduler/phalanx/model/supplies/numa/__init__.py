"""NUMA zones: which pods find one, how nodes publish them, and what pods need of them."""
