"""The API server: routing, admission, per-kind rules, patches, lists, watches, errors."""
