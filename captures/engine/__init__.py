"""The loop of a capture: the log, checkpoints, state, reconnection, commands, tables that are set aside."""
