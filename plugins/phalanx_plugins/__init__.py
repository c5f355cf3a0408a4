"""The built-in plugins, one policy per file. The docstring of a plugin is its user documentation."""
