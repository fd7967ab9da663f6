"""Row events of the binary log to protocol lines, by functions that are generated per table version."""
