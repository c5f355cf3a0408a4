"""One policy a file. A plugin's docstring is its user documentation. Plugins see model and framework only."""
