"""The only code that speaks to the Kubernetes API: client, reflector, binder, lease, events, status."""
