"""What a failed write, or a log that is gone, is to the writer of a change log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store


@contextmanager
def writing(place: Path | str = "") -> Iterator[None]:
    """Turns an ``OSError`` (disk full, no permission, a store that is away) into ``TM-LOG-008`` with path and reason.

    ``FileExistsError`` is raised unchanged: it is an answer and no failure.

    Args:
        place: What is written; by default the error says it.
    """
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        what = place or error.filename
        raise ChangeLogError("TM-LOG-008", f"cannot write {what}: {error.strerror or error}") from error


def disappeared(store: Store) -> ChangeLogError:
    """The log is not in its place any more: perhaps its volume is not mounted."""
    return ChangeLogError("TM-LOG-013", f"{store.place} has disappeared: it held this capture's change log")
