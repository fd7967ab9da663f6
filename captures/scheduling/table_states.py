"""Whether a table is captured: what it may be, and the entry of a table in the state that is left out.

See ``tidemark.captures.engine.set_aside``. A table goes from one state to another by a method of the first one's class:
no other way can be written. The picture in docs/running.md is generated from these methods and their docstrings.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tidemark.captures.contract import causes
from tidemark.captures.contract.in_words import in_words
from tidemark.captures.contract.source import OpenedTable
from tidemark.captures.contract.table_changes import Cause
from tidemark.protocol.error_codes import REGISTERED
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

GRACE_SECONDS = 30.0
"""How long a table may be missing before it is set aside: a swap by rename takes a moment."""

TEXT_LENGTH = 500
"""The most characters of an error's message in the state, which must stay small."""


_APART = ("begun", "paused", "priority", "dropped", "reread", "verification")
"""Members of a binding's state that do not depend on whether it is captured."""


@dataclass(frozen=True, slots=True)
class Captured:
    """Its changes are captured, and its rows are read."""

    def go_away(self, error: SourceError, now: float) -> Away:
        """It cannot be captured as it is."""
        return Away(error, now + GRACE_SECONDS)


CAPTURED = Captured()


@dataclass(slots=True)
class Away:
    """It cannot be captured as it is. Its changes are still captured, and only its chunks wait.

    Attributes:
        error: What is wrong with it.
        settles_at: When the grace period ends, by the engine's clock.
        asked: A command asked for it.
        look_at: When it is checked next.
    """

    error: SourceError
    settles_at: float
    asked: bool = False
    look_at: float = 0.0

    def ask(self) -> None:
        """A command asks for the table: it is checked at once."""
        self.asked, self.look_at = True, 0.0

    def return_in_time(self) -> Captured:
        """It can be captured again within the grace period."""
        return CAPTURED

    def leave_out(self, kept: JsonObject, since: str) -> LeftOut:
        """The grace period is over, or the log no longer describes its changes."""
        return LeftOut(
            self.error, self.settles_at, kept, since, wanted=self.asked, asked=self.asked, look_at=self.look_at
        )


@dataclass(frozen=True, slots=True)
class WhenFit:
    """A table returns as soon as it can be captured."""

    text: ClassVar[str] = "once the cause is fixed"


@dataclass(frozen=True, slots=True)
class WithAnotherPolicy:
    """A table has bad values: it returns with another ``OpenedTable.policy`` than this, or on a command."""

    text: ClassVar[str] = "with another policy, or on `tidemark resume`"
    policy: str


@dataclass(frozen=True, slots=True)
class OnCommand:
    """A table can be captured, and would be read again: it waits for a command, since ``on_alter`` is ``ask``."""

    text: ClassVar[str] = "on `tidemark resume`"


@dataclass(slots=True)
class LeftOut:
    """Neither its changes are captured nor its rows. It is set aside once its grace period is over.

    Attributes:
        error: What is wrong with it.
        settles_at: When the grace period ends, by the engine's clock.
        kept: The state of its backfill when it was left out.
        since: The position from which on it is left out, in the state's form.
        returns: When it is captured again.
        passed: Changes of it were skipped, or may have been: its backfill cannot resume.
        wanted: A command asked for it, so it is read again if necessary.
        settled: It is set aside, and a warning was logged.
        asked: A command asked for it, or a session has begun: missing objects may be created at the source.
        look_at: When it is checked next.
    """

    error: SourceError
    settles_at: float
    kept: JsonObject
    since: str = ""
    returns: WhenFit | WithAnotherPolicy | OnCommand = field(default_factory=WhenFit)
    passed: bool = False
    wanted: bool = False
    settled: bool = False
    asked: bool = False
    look_at: float = 0.0

    def ask(self) -> None:
        """A command asks for the table: it is checked at once."""
        self.asked = self.wanted = True
        self.look_at = 0.0
        if isinstance(self.returns, OnCommand):
            self.returns = WhenFit()

    def waits(self, policy: str, *, asks: bool) -> bool:
        """Whether it stays left out until a command comes, or it is configured otherwise.

        Args:
            policy: The present ``OpenedTable.policy``.
            asks: As ``stays_left_out``.
        """
        match self.returns:
            case WithAnotherPolicy(refused):
                return refused == policy and not self.asked
            case OnCommand():
                return asks
            case WhenFit():
                return False

    def regain(self) -> Captured:
        """It can be captured again, and resumes, or is emptied and read again."""
        return CAPTURED

    def to_state(self) -> JsonObject:
        """The binding's part of the state while the table is left out."""
        aside: JsonObject = {"code": self.error.code, "text": self.error.message[:TEXT_LENGTH], "since": self.since}
        if self.error.remedy != self.error.entry.remedy:
            aside["remedy"] = self.error.remedy
        if self.passed:
            aside["passed"] = True
        if isinstance(self.returns, WithAnotherPolicy):
            aside["policy"] = self.returns.policy
        if isinstance(self.returns, OnCommand):
            aside["put_off"] = True
        if self.wanted:
            aside["wanted"] = True
        kept = {name: value for name, value in self.kept.items() if name not in _APART}
        return {"scan": {}, **kept, "aside": aside}


TableState: TypeAlias = Captured | Away | LeftOut


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


def read_as(table: OpenedTable) -> JsonObject:
    """The binding's part of the state about which rows are read."""
    if not table.scan.reads:
        return {"log_only": True}
    return {"where": table.where} if table.where else {}


def configured_otherwise(table: OpenedTable, stored: JsonObject | None) -> list[Cause]:
    """The changes of the configuration for which the rows that were read are not all, or not as they are to be."""
    found = [causes.CONFIGURED] if table.captured_otherwise else []
    if (before := (stored or {}).get("where")) and before != table.where:
        found.append(causes.CONDITION)
    return found


def stays_left_out(table: OpenedTable, stored: JsonObject | None, *, asks: bool) -> bool:
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


def opened_state(table: OpenedTable, stored: JsonObject | None, now: float, *, asks: bool) -> Captured | LeftOut:
    """What a table is at the start of a session.

    Args:
        stored: The binding's part of the state.
        now: By the engine's clock.
        asks: As ``stays_left_out``.
    """
    if not stays_left_out(table, stored, asks=asks):
        return CAPTURED
    kept = dict(stored or {})
    aside: JsonObject | None = kept.pop("aside", None)
    if aside is None and table.unfit is None:
        return LeftOut(
            must_be_read(table.name, in_words("made_again_or_key")), now, kept, returns=OnCommand(), passed=True
        )
    if aside is None:
        assert table.unfit is not None
        return LeftOut(table.unfit, now + GRACE_SECONDS, kept, asked=True)
    code = aside.get("code", "")
    error = SourceError(code if code in REGISTERED else "TM-CAP-007", aside.get("text", ""), remedy=aside.get("remedy"))
    returns = _returns(aside)
    return LeftOut(
        table.unfit or error,
        now,
        kept,
        aside.get("since", ""),
        returns=returns,
        passed=bool(aside.get("passed")),
        wanted=bool(aside.get("wanted")),
        asked=isinstance(returns, WhenFit),
    )


def _returns(aside: JsonObject) -> WhenFit | WithAnotherPolicy | OnCommand:
    if aside.get("put_off"):
        return OnCommand()
    return WithAnotherPolicy(aside["policy"]) if "policy" in aside else WhenFit()
