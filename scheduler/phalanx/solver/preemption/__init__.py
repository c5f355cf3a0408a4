"""Who is evicted so that a demand fits: the cheapest set, and what any set costs at least."""
