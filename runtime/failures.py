"""Any exception as an error with a code: what a command says of it, and how it ends."""

from __future__ import annotations

from protocol.error_codes import Policy
from protocol.errors import TidemarkError

FAILED_FOR_NOW = 3
"""Exit status: only a retry is needed."""


def failure_of(error: Exception) -> TidemarkError:
    """The error that an exception at a command's edge is told as."""
    if isinstance(error, TidemarkError):
        return error
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        return TidemarkError("TM-RUN-013", f"{error.strerror or type(error).__name__}{place}")
    return TidemarkError("TM-RUN-014", f"{type(error).__name__}: {error}")


def status_of(error: TidemarkError) -> int:
    """The exit status of a command that failed with this: 3 where the same may succeed when it is run again."""
    return FAILED_FOR_NOW if error.entry.policy is Policy.RETRY else error.exit_status
