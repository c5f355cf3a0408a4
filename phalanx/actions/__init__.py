"""What a cycle tries, in order: each action is one execute(session)."""
