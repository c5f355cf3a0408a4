"""What ends the demo early."""


class DemoFailed(Exception):
    """An act did not come out as it says; the message is what was seen instead."""
