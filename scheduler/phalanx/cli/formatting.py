"""Numbers in the texts of commands."""


def count(number: int, noun: str) -> str:
    """The number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
