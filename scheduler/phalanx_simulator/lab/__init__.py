"""The laboratory: a recorded history through the real scheduler in virtual time, for each configuration."""
