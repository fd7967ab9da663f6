"""Why a table is not captured, and what the state keeps of that: see ``captures.engine.set_aside``."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.contract.source import OpenedTable
from protocol.error_codes import CODES
from protocol.errors import SourceError
from protocol.messages import JsonObject

GRACE_SECONDS = 30.0
"""How long a table may be away before it is set aside for good: a swap by rename takes a moment."""

TEXT_LENGTH = 500
"""Characters of an error's message in the state, which is to stay small."""


@dataclass(slots=True)
class Aside:
    """Why a table is not captured.

    Attributes:
        error: What is wrong with it.
        settles_at: When it is set aside for good if it has not come back, by the engine's clock.
        left_out: The log leaves it out, and ``kept`` is the state that its backfill had then. Otherwise its log is
            followed all the same, and only chunks wait.
        since: The position from which on it is left out, as the state has it.
        passed: Changes of it were passed over, or may have been: it cannot go on where it stood.
        policy: ``OpenedTable.policy``, where it is values that it is left out for.
        settled: It is set aside, and that was said.
        asked: It was asked for by command, or a session has begun: what is missing at the source may be made.
        look_at: When it is looked at again.
    """

    error: SourceError
    settles_at: float
    left_out: bool = False
    kept: JsonObject = field(default_factory=dict)
    since: str = ""
    passed: bool = False
    policy: str | None = None
    settled: bool = False
    asked: bool = False
    look_at: float = 0.0

    def ask(self) -> None:
        """It is wanted, and looked at without waiting."""
        self.asked = True
        self.look_at = 0.0

    def to_state(self) -> JsonObject:
        """The binding's part of the state, once it is left out."""
        aside: JsonObject = {"code": self.error.code, "text": self.error.message[:TEXT_LENGTH], "since": self.since}
        if self.error.remedy != self.error.entry.remedy:
            aside["remedy"] = self.error.remedy
        if self.passed:
            aside["passed"] = True
        if self.policy is not None:
            aside["policy"] = self.policy
        kept = {name: value for name, value in self.kept.items() if name not in ("begun", "paused", "priority")}
        return {"scan": {}, **kept, "aside": aside}


def stays_aside(table: OpenedTable, stored: JsonObject | None) -> bool:
    """Whether a session that begins leaves a table out.

    It does not where the table can be captured, is the same one, and nothing of it was passed over: the log goes on
    from where the last session ended, and has all that happened since.

    Args:
        stored: The binding's part of the state.
    """
    if table.unfit is not None:
        return True
    aside = (stored or {}).get("aside")
    if stored is None or aside is None:
        return False
    return bool(aside.get("passed")) or "policy" in aside or not table.is_still(stored.get("identity"))


def opened_aside(table: OpenedTable, stored: JsonObject | None, now: float) -> Aside | None:
    """What keeps a table from being captured from the session's start on; None where nothing does.

    Args:
        stored: The binding's part of the state.
        now: By the engine's clock.
    """
    if not stays_aside(table, stored):
        return None
    kept = dict(stored or {})
    aside: JsonObject | None = kept.pop("aside", None)
    if aside is None:
        assert table.unfit is not None
        return Aside(table.unfit, now + GRACE_SECONDS, left_out=True, kept=kept, asked=True)
    code = aside.get("code", "")
    error = SourceError(code if code in CODES else "TM-CAP-007", aside.get("text", ""), remedy=aside.get("remedy"))
    policy = aside.get("policy")
    return Aside(
        table.unfit or error,
        now,
        left_out=True,
        kept=kept,
        since=aside.get("since", ""),
        passed=bool(aside.get("passed")),
        policy=policy,
        asked=policy is None,
    )
