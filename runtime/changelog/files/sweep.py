"""Deletes files of dead writers that no commit names, or ever will."""

from __future__ import annotations

import logging
from pathlib import Path

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import Summary
from tidemark.runtime.changelog.files import storage

logger = logging.getLogger(__name__)


def sweep(root: Path, summary: Summary) -> None:
    """Deletes leftovers of writers older than ``summary.epoch``, which has just claimed the log.

    It reads no commit. A dead writer committed the numbers from its first commit to the next writer's first. Any other
    segment of it was never committed. Files of this and of newer writers stay, and so do files with other names.

    Raises:
        ChangeLogError: ``TM-LOG-008`` a file cannot be deleted.
    """
    leftovers = [path for path in storage.files(root / layout.DATA) if _is_orphan(path.name, summary)]
    for folder in (root, root / layout.COMMITS):
        for path in folder.iterdir():
            epoch = storage.temporary_epoch(path.name)
            if epoch is not None and epoch < summary.epoch and path.is_file():
                leftovers.append(path)
    for path in leftovers:
        storage.remove(path)
    if leftovers:
        logger.info("removed %d files that no commit names from %s", len(leftovers), root)


def _is_orphan(name: str, summary: Summary) -> bool:
    origin = layout.segment_origin(name)
    if origin is None:
        return False
    number, epoch = origin
    first = summary.claims.get(epoch)
    if first is None or epoch >= summary.epoch:
        return False
    next_epoch = min(other for other in summary.claims if other > epoch)
    return not first <= number < summary.claims[next_epoch]
