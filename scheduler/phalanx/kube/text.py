"""Texts that must fit into a field of the API."""


def shortened(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8; what is cut off is marked with three dots."""
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - 3].decode(errors="ignore") + "..."
