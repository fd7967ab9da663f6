"""What all databases share about rows on their way to lines: heads and tails, hashes, generated functions."""
