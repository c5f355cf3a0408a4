"""What a cycle does, step by step: each step is one execute(session). Its parts are in folders by subject."""
