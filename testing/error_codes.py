"""The code of servers that do not start."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-DEMO-001",
        "The demo's PostgreSQL cannot be started",
        "Install the extra with pip install 'tidemark[demo]', which includes a PostgreSQL. The message ends with the "
        "server's last output.",
    ),
)
