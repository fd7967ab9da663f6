"""The live view: a kept table with the tail of the log laid over it, as fresh as the log's last commit."""
