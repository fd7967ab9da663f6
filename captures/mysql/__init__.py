"""MySQL and MariaDB: the binlog, chunks, types, and what an operator must set up."""

from __future__ import annotations

from tidemark.captures.mysql.error_codes import CODES
from tidemark.protocol.error_codes import register

register(CODES)
