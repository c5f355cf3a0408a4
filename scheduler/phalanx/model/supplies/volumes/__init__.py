"""Volumes of claims: what cluster objects say of them, which pods they suit, and which claim gets which."""
