"""Exponential decay with integers."""


def decayed(amount: int, elapsed: int, half_life: int) -> int:
    """The rest of an amount after this time. It is halved in each half-life, linearly within one."""
    halvings, rest = divmod(max(0, elapsed), half_life)
    left = amount >> min(halvings, amount.bit_length())
    return left - left * rest // (2 * half_life)
