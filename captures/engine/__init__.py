"""The loop of a capture: its input and output, checkpoints, reconnection, commands, tables that are set aside."""
