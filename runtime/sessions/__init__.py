"""A running capture: the sessions of its connector, one after another, and their commits."""
