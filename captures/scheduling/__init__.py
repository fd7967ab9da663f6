"""Which chunk is read next, and how fast."""
