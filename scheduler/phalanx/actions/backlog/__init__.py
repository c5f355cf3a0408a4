"""Which waiting gangs a cycle looks at: in a crowded queue only some, and the others are set aside."""
