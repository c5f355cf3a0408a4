"""Completion of commands, options and live names in bash, zsh and fish."""
