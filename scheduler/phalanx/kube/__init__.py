"""Access to the Kubernetes API: client, reflectors, binder, evictor, leader election, events, status."""
