"""Which reader of chunks is opened."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec

from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.session import ReaderEndpoint
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES

logger = logging.getLogger(__name__)

PACKAGES = ("adbc_driver_manager", "adbc_driver_postgresql", "nanoarrow")
"""What ``ColumnChunkReader`` needs."""


def columns_offered() -> bool:
    """Whether rows can be sent as columns: the runtime takes them, and the packages are installed."""
    if os.environ.get(BATCHES) != ARROW:
        return False
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        logger.info("rows are not read as columns, which takes less time, without the packages %s", ", ".join(missing))
    return not missing


def open_reader(endpoint: ReaderEndpoint, *, columns: bool) -> CopyChunkReader:
    """A reader of chunks, ``columns`` where they can be sent. Only its process imports what reads them."""
    if not columns:
        return CopyChunkReader(endpoint)
    from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader

    return ColumnChunkReader(endpoint)
