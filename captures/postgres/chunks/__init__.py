"""Chunks of a table by COPY: what is selected, the snapshot, the fence, where a scan is split."""
