"""Virtual time: jobs come and end, a scheduler decides, and the accounts of a run are kept."""
