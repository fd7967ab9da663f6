"""The binary log: its connection, events and transactions, and whether a capture can resume it."""
