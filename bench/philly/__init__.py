"""A week of Microsoft's Philly trace in virtual time, by decisions alone, beside simpler schedulers."""
