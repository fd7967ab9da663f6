"""A capture that runs: sessions of its connector, one after another, and their commits."""
