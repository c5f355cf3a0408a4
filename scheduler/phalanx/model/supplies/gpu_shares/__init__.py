"""Shares of GPUs: which devices pods get, how pods and nodes declare them, and what a session counts."""
