"""The data of each page, as it is sent to the browser: pure functions of what was read."""
