"""Chunks of a table by COPY: a reader of them, the fence, where a scan is split."""
