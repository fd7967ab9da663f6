"""The two contracts of tidemark: the capture protocol on stdin and stdout, and the change log on disk."""
