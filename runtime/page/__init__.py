"""A page about a running command, at the address of its metrics: it shows, and changes nothing."""
