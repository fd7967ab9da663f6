"""One folder per connector image: a database handed to the capture engine."""
