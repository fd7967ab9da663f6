"""Chunks of a table by SELECT: what is selected, the snapshot, the fence, where a scan is split."""
