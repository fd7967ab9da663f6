"""PostgreSQL 14 and later: pgoutput from a logical replication slot, chunks by COPY."""

from __future__ import annotations

from tidemark.captures.postgres.error_codes import CODES
from tidemark.protocol.error_codes import register

register(CODES)
