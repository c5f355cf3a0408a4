"""What a cycle does, step by step: each step is a function `execute(cycle)`. Its parts are in folders by subject."""
