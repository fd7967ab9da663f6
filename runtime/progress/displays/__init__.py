"""The forms in which a running capture is shown."""
