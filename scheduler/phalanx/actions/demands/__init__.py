"""What gangs want now, and in which order it is tried."""
