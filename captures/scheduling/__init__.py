"""Which chunk is read next, and how fast; and the state that a session starts from."""
