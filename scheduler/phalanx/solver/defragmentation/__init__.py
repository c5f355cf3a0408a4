"""Who is moved so that a demand fits: the fewest pods, of those the cheapest, and where they go."""
