"""The readers of chunks: a thread for each, and a process where decoding costs much."""
