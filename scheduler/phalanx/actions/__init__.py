"""What a cycle does, step by step: each step is a function `execute(cycle)`. Folders hold its parts."""
