"""Codes of stores."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-CFG-009",
        "The place of an object store is wrong",
        "Write s3://BUCKET/PATH. What the environment does not say is in the entry store: endpoint, region, keys, and "
        "allow_http for an address that begins with http://.",
    ),
)
