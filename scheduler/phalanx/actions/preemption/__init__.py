"""Who is evicted for whom or for what, and the room that is kept until they have ended."""
