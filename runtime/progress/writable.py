"""Whether a change log can be written now: an idle capture has no commit that would find out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store.local import DirectoryStore, unfinished_name
from tidemark.runtime.changelog.files.failures import disappeared, writing

BLOCK = 4096
"""Bytes of the file that is tried."""


def why_unwritable(root: Path) -> ChangeLogError | None:
    """Why the log at ``root`` cannot be written; None if it can. Makes a small file beside the commits, and removes it.

    ``TM-LOG-008`` with the reason, or ``TM-LOG-013`` if the log is not there any more.
    """
    if not (root / HEADER).exists():
        return disappeared(DirectoryStore(root))
    path = root / COMMITS / unfinished_name()
    try:
        with writing(path):
            path.write_bytes(bytes(BLOCK))
    except ChangeLogError as error:
        return error
    finally:
        with suppress(OSError):  # Where it could not be made, it cannot be removed.
            path.unlink(missing_ok=True)
    return None
