"""What a study found: figures, differences, tables, plots, and the page."""
