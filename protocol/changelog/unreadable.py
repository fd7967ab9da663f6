"""A file of a change log that cannot be read: because of the file, or because its store does not answer."""

from __future__ import annotations

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import StoreUnavailableError


def unreadable(where: str, error: OSError) -> ChangeLogError:
    """The error: ``TM-LOG-017`` where it passes by itself, else ``TM-LOG-011``.

    Args:
        where: The file, for people.
        error: Why.
    """
    code = "TM-LOG-017" if isinstance(error, StoreUnavailableError) else "TM-LOG-011"
    return ChangeLogError(code, f"cannot read {where}: {error.strerror or error}")
