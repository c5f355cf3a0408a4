"""Read-only endpoints: health, readiness, metrics, debug snapshot."""
