"""What a command to a running capture asks for, and which connectors know it."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What ``control`` asks for."""

    PAUSE = "pause"
    RESUME = "resume"
    BACKFILL = "backfill"
    PRIORITY = "priority"
    VERIFY = "verify"
    REPAIR = "repair"


FIRST = frozenset({Action.PAUSE, Action.RESUME, Action.BACKFILL, Action.PRIORITY})
"""What a connector knows that accepts commands, and does not say which."""
