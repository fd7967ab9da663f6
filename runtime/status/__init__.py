"""What is known of a capture, running or not: for ``tidemark status``."""
