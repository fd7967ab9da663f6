"""The log: pgoutput from a replication slot, and whether a capture can resume it."""
