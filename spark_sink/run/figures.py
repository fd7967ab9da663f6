"""Figures as text."""

from __future__ import annotations


def size(number: int) -> str:
    """Bytes: ``512 B``, ``3.4 MB``."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{value / 1000:,.3g} TB"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``5.0 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def count(number: int, noun: str) -> str:
    """``1 file``, ``12,345 files``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
