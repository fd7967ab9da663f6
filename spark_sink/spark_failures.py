"""Finds our own error in what Spark raises: an error of the source crosses two processes as text."""

from __future__ import annotations

import re

from protocol.error_codes import CODES
from protocol.errors import ChangeLogError, SparkError, TidemarkError

_OURS = re.compile(r"protocol\.errors\.(\w+): (TM-[A-Z]+-\d{3}): ([^\n]*)")
_KINDS: dict[str, type[TidemarkError]] = {kind.__name__: kind for kind in (ChangeLogError, SparkError)}


def tidemark_error(error: Exception) -> TidemarkError:
    """The error that made Spark fail, or ``TM-SPK-013`` with the first line of Spark's own."""
    text = str(error)
    if ours := _OURS.search(text):
        name, code, message = ours.groups()
        if code in CODES:
            return error_of(name, code, message.strip())
    return SparkError("TM-SPK-013", next((line for line in text.splitlines() if line.strip()), type(error).__name__))


def error_of(kind: str, code: str, message: str) -> TidemarkError:
    """An error that crossed processes as text. ``kind`` is the name of its class."""
    return _KINDS.get(kind, TidemarkError)(code, message)
