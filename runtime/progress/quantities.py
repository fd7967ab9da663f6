"""Durations and sizes, for people."""

from __future__ import annotations

CLOCKS_SECONDS = 2.0
"""The clocks of two machines may differ by this, which is not worth a word."""


def duration(seconds: float | None) -> str:
    """A duration as text: 850 ms, 12 s, 3 min 20 s, 5 h 12 min; a dash if unknown."""
    if seconds is None:
        return "–"
    seconds = max(0.0, seconds)  # The clock was set back, or that of another machine is ahead.
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def ago(seconds: float) -> str:
    """The age of what another machine may have noted, by its clock."""
    if seconds >= -CLOCKS_SECONDS:
        return f"{duration(seconds)} ago"
    return f"just now (by a clock that is {duration(-seconds)} ahead of this machine's)"


def size(count: float) -> str:
    """A number of bytes as text, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
