"""What is compared: a study, its variants, and their runs."""
