"""Volcano's scheduler, without its controllers and webhooks."""
