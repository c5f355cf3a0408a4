"""A week of Microsoft's Philly trace in virtual time, compared with simpler schedulers."""
