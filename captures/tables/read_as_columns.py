"""What readers of columns share, whatever their database is: when they may send columns, and which rows have none."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from importlib.util import find_spec

from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.tables.bad_values import ROW_LIMIT
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES

logger = logging.getLogger(__name__)

LARGE_ROW = ROW_LIMIT // 8
"""Bytes of a row's values. A smaller row has a place in a captured line, for JSON needs at most six bytes for one, and
its names fit into the rest."""


class Unusual(Exception):
    """Rows have values that are not what documents have, or may have some: they have to be read as documents."""


class LargeRow(Unusual):
    """A row may be larger than a captured line."""


def columns_offered(packages: Sequence[str]) -> bool:
    """Whether rows can be sent as columns: the runtime takes them, and the packages that it takes are installed."""
    if os.environ.get(BATCHES) != ARROW:
        return False
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        logger.info("rows are not read as columns, which takes less time, without the packages %s", ", ".join(missing))
    return not missing


def is_by_key(request: ChunkRequest, *, key: bool, where: str | None) -> bool:
    """Whether a chunk is of a scan of a whole table by key, and nothing else; ``key`` and ``where`` are the table's."""
    plan = request.plan
    return plan.scan and key and not (plan.physical or plan.rereads or plan.where or where)
