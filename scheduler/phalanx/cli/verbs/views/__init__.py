"""What each command shows, as pure functions of what was read."""
