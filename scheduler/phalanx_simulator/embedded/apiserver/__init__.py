"""What an API server does with a request: routing, admission, rules, patches, lists, watches, errors."""
