"""Any exception as an error with a code: what a command says of it, and how it ends."""

from __future__ import annotations

from protocol.errors import TidemarkError


def failure_of(error: Exception) -> TidemarkError:
    """The error that an exception at a command's edge is told as."""
    if isinstance(error, TidemarkError):
        return error
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        return TidemarkError("TM-RUN-013", f"{error.strerror or type(error).__name__}{place}")
    return TidemarkError("TM-RUN-014", f"{type(error).__name__}: {error}")
