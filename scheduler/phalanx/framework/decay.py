"""Exponential decay in whole numbers."""


def decayed(amount: int, elapsed: int, half_life: int) -> int:
    """What is left of an amount; between two half-lives on the straight line that joins them."""
    halvings, rest = divmod(max(0, elapsed), half_life)
    left = amount >> min(halvings, amount.bit_length())
    return left - left * rest // (2 * half_life)
