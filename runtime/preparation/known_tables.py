"""Keeps the tables of a capture as they were discovered when it was last opened.

A table that is no longer discovered, or is disabled now, stays bound: the connector sets it aside, and captures it
again when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import orjson

from tidemark.protocol.changelog.known_tables import FILE
from tidemark.protocol.messages import DiscoveredBinding
from tidemark.runtime.changelog.files import storage


def keep_known(root: Path, tables: Sequence[DiscoveredBinding]) -> None:
    """Replaces the file, if its content changes.

    Raises:
        ChangeLogError: ``TM-LOG-008``.
    """
    body = {"tables": msgspec.to_builtins(tables)}
    data = orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE)
    path = root / FILE
    with storage.writing(path):
        if path.exists() and path.read_bytes() == data:
            return
    storage.replace(path, data)
