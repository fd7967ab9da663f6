"""A run of ``materialize``: what it is asked for, what it tells meanwhile, and what it reports."""
