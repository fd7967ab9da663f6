"""Which chunk is read next, by which reader, and how fast."""
