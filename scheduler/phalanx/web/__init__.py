"""The read-only HTTP endpoints: health, readiness, metrics, recorded cycles."""
