"""The captures of a folder, side by side: a process for each file."""
