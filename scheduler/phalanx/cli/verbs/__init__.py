"""The commands that look at a cluster: one reading, a pure view for each command, and how it is printed."""
