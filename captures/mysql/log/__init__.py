"""The binary log: its connection, events, positions and transactions, and whether a capture can resume it."""
