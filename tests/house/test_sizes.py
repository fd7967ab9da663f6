"""A size is the same number of bytes wherever it stands in a capture file."""

from __future__ import annotations

import pytest

from tidemark.captures.contract.options import BackfillConfig
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.protocol.capture_file import CommitEntry, LimitsEntry


@pytest.mark.parametrize(("text", "size"), [("100000kB", 10**8), ("100000KiB", 102_400_000), ("1.5 GB", 15 * 10**8)])
def test_every_entry_reads_sizes_alike(text: str, size: int) -> None:
    postgres = parse_endpoint({"host": "h", "database": "d", "user": "u", "max_retained_wal": text})
    assert postgres.max_retained_wal == size
    assert CommitEntry.model_validate({"bytes": text}).bytes == size
    assert LimitsEntry.model_validate({"memory": text}).memory == size
    assert BackfillConfig.model_validate({"max_rate": text}).max_rate == (size, False)
