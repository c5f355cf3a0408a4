"""Texts for people: what tenants write into them must not control the terminal that shows them."""


def printable(text: str) -> str:
    """The text with control characters escaped, such as those that move the cursor of a terminal.

    A text that was escaped stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def that_wait(count: int) -> str:
    """Such as "1 waits" or "2 wait"."""
    return f"{count} wait{'s' if count == 1 else ''}"
