"""Turns any exception into an error with a code, and gives a command's exit status."""

from __future__ import annotations

from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.extras import missing_extra

FAILED_FOR_NOW = 3
"""Exit status: only a retry is needed."""


def failure_of(error: Exception) -> TidemarkError:
    """The error with a code for an exception that ends a command."""
    if isinstance(error, TidemarkError):
        return error
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        return TidemarkError("TM-RUN-013", f"{error.strerror or type(error).__name__}{place}")
    if isinstance(error, ModuleNotFoundError) and (missing := missing_extra(error)):
        return missing
    return TidemarkError("TM-RUN-014", f"{type(error).__name__}: {error}")


def status_of(error: TidemarkError) -> int:
    """The exit status of a command that failed with this: 3 if a retry may succeed."""
    return FAILED_FOR_NOW if error.entry.policy is Policy.RETRY else error.exit_status
