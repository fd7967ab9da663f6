"""What all databases share about a server: configuration, prerequisites, shutdown."""
