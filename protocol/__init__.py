"""The contracts of tidemark: the capture protocol on stdin and stdout, the change log on disk, and the capture file."""
