"""The plugin protocol, registry and configuration, and the session and statement that a cycle works on."""
