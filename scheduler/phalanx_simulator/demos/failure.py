"""The error that ends the demo."""


class DemoFailed(Exception):
    """The demo did not show the expected result; the message says what happened instead."""
