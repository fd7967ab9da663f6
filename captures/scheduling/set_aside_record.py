"""Why a table is not captured, and its entry in the state: see ``tidemark.captures.engine.set_aside``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from tidemark.captures.contract.source import OpenedTable
from tidemark.protocol.error_codes import CODES
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

GRACE_SECONDS = 30.0
"""How long a table may be missing before it is set aside: a swap by rename takes a moment."""

TEXT_LENGTH = 500
"""The most characters of an error's message in the state, which must stay small."""


_APART = ("begun", "paused", "priority", "reread")
"""Members of a binding's state that do not depend on whether it is captured."""


@dataclass(slots=True)
class Aside:
    """Why a table is not captured.

    Attributes:
        error: What is wrong with it.
        settles_at: When the grace period ends, by the engine's clock.
        left_out: The log skips the table, and ``kept`` is the state of its backfill at that time. Otherwise its
            changes are still captured, and only its chunks wait.
        since: The position from which on it is left out, in the state's form.
        passed: Changes of it were skipped, or may have been: its backfill cannot resume.
        policy: ``OpenedTable.policy``, if the reason is a bad value.
        put_off: It can be captured, and would be read again: it waits for a command, since ``on_alter`` is ``ask``.
        wanted: A command asked for it, so it is read again if necessary.
        settled: It is set aside, and a warning was logged.
        asked: A command asked for it, or a session has begun: missing objects may be created at the source.
        look_at: When it is checked next.
    """

    error: SourceError
    settles_at: float
    left_out: bool = False
    kept: JsonObject = field(default_factory=dict)
    since: str = ""
    passed: bool = False
    policy: str | None = None
    put_off: bool = False
    wanted: bool = False
    settled: bool = False
    asked: bool = False
    look_at: float = 0.0

    def ask(self) -> None:
        """A command asks for the table: it is checked at once."""
        self.asked = self.wanted = True
        self.put_off = False
        self.look_at = 0.0

    def waits(self, policy: str, *, asks: bool) -> bool:
        """Whether it stays left out until a command comes, or it is configured otherwise.

        Args:
            policy: The present ``OpenedTable.policy``.
            asks: As ``stays_aside``.
        """
        return (self.policy == policy and not self.asked) or (self.put_off and asks)

    def to_state(self) -> JsonObject:
        """The binding's part of the state while the table is left out."""
        aside: JsonObject = {"code": self.error.code, "text": self.error.message[:TEXT_LENGTH], "since": self.since}
        if self.error.remedy != self.error.entry.remedy:
            aside["remedy"] = self.error.remedy
        if self.passed:
            aside["passed"] = True
        if self.policy is not None:
            aside["policy"] = self.policy
        if self.put_off:
            aside["put_off"] = True
        if self.wanted:
            aside["wanted"] = True
        kept = {name: value for name, value in self.kept.items() if name not in _APART}
        return {"scan": {}, **kept, "aside": aside}


def must_be_read(name: str, what: str) -> SourceError:
    """The error of a table that waits for a command before it is read again, because of ``what``."""
    return SourceError(
        "TM-CAP-008",
        f"{name} must be read again ({what}), which waits since `on_alter` is `ask`",
        remedy=f"Have it read: tidemark resume FILE --table {shlex.quote(name)}. What it costs, and how to avoid it: "
        "tidemark status FILE.",
    )


def was_replaced(table: OpenedTable, stored: JsonObject | None) -> bool:
    """Whether it is another table than in the state, or has another key, so that it must be emptied and read again."""
    return stored is not None and not table.is_still(stored.get("identity"))


def stays_aside(table: OpenedTable, stored: JsonObject | None, *, asks: bool) -> bool:
    """Whether a session that begins leaves a table out.

    The table is captured if that is possible, it is the same table, and no change of it was skipped: the log resumes
    where the last session ended, so it has every change since.

    Args:
        stored: The binding's part of the state.
        asks: A table that would be emptied and read again waits for a command.
    """
    if table.unfit is not None:
        return True
    aside = (stored or {}).get("aside")
    if stored is None or aside is None:
        return asks and table.scan.reads and was_replaced(table, stored)
    return bool(aside.get("passed")) or "policy" in aside or was_replaced(table, stored)


def opened_aside(table: OpenedTable, stored: JsonObject | None, now: float, *, asks: bool) -> Aside | None:
    """What keeps a table from being captured at the start of a session; None if nothing does.

    Args:
        stored: The binding's part of the state.
        now: By the engine's clock.
        asks: As ``stays_aside``.
    """
    if not stays_aside(table, stored, asks=asks):
        return None
    kept = dict(stored or {})
    aside: JsonObject | None = kept.pop("aside", None)
    if aside is None and table.unfit is None:
        what = "another table has its name, or it has another key"
        return Aside(must_be_read(table.name, what), now, left_out=True, kept=kept, passed=True, put_off=True)
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
        put_off=bool(aside.get("put_off")),
        wanted=bool(aside.get("wanted")),
        asked=policy is None and not aside.get("put_off"),
    )
