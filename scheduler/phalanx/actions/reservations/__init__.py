"""Room that is kept for what waits: when and where it will start, and who may pass it meanwhile."""
