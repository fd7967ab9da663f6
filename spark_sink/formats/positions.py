"""Finds the position of a table's version in the change log.

The position belongs to the data, not to the table: after a RESTORE the newest application transaction is ahead of the
rows. So the table's commits are read from the newest back, until one tells the position. A commit of ours states it in
its ``commitInfo``. A commit that changes no rows has the position of the commit before. A RESTORE has the position of
the newest earlier version with the same files. After any other commit no position describes the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.delta_log import DeltaLog, LoggedCommit
from tidemark.spark_sink.tables.store_place import StorePlace

_LOG, _TARGET, _POSITION = "tidemark.log", "tidemark.target", "tidemark.position"
_BEFORE, _GENERATION, _EVENTS = "tidemark.before", "tidemark.generation", "tidemark.events"
_OVER = "tidemark.over"
"""A field of the ``commitInfo`` of our commits."""

_TAKE_COLUMNS = frozenset({"RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS"})
"""Operations after which rows are without values that they had, though no file changed."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a table stands in its change log.

    Attributes:
        offset: All events below it are applied.
        before: ``FollowedLog.mark`` of that offset; 0 where an earlier version did not state it.
        generation: The number of the newest generation that rows are of; 0 for a table of events, which has them all.
        events: How many events below the offset the log has of that generation, or of the table if it is 0; -1 where an
            earlier version did not state it. While the log has no more of them, the table lacks none.
        over: The number of the oldest generation that rows may be of, over which the newest one is laid; 0 for rows of
            the newest alone.
    """

    offset: int
    before: int = 0
    generation: int = 1
    events: int = -1
    over: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a table: the change log that it is kept from, and the name of the ``Target``."""

    log_id: str
    target: str

    @property
    def position_transaction(self) -> str:
        """The application whose transaction version is the position."""
        return f"tidemark:{self.log_id}"

    @property
    def version_transaction(self) -> str:
        """The application whose transaction version is the version of our last commit.

        Where the log was cleaned it tells whether anybody may have committed since.
        """
        return f"tidemark:{self.log_id}:{self.target}"

    @property
    def transactions(self) -> tuple[str, ...]:
        """The applications whose transaction versions are the members of the position."""
        offset = self.position_transaction
        return offset, *(f"{offset}:{member}" for member in ("before", "generation", "events", "over"))

    def commit_properties(self, position: Position, version: int) -> CommitProperties:
        """The properties of a commit of ours, which makes this version, or fails if another process committed first."""
        members = position.offset, position.before, position.generation, position.events, position.over
        return CommitProperties(
            custom_metadata=self._words(position),
            app_transactions=[
                *(Transaction(name, member) for name, member in zip(self.transactions, members, strict=True)),
                Transaction(self.version_transaction, version),
            ],
            max_commit_retries=0,
        )

    def _words(self, position: Position) -> dict[str, Any]:
        return {
            _LOG: self.log_id,
            _TARGET: self.target,
            _POSITION: position.offset,
            _BEFORE: position.before,
            _GENERATION: position.generation,
            _EVENTS: position.events,
            _OVER: position.over,
        }

    def engine_settings(self, position: Position, version: int) -> dict[str, str]:
        """The same for a commit by the session's engine, as settings of Delta Lake for Spark.

        Its transaction is one that our commits by delta-rs do not have.
        """
        return {
            "spark.databricks.delta.commitInfo.userMetadata": json.dumps(self._words(position)),
            "spark.databricks.delta.write.txnAppId": f"{self.version_transaction}:sql",
            "spark.databricks.delta.write.txnVersion": str(version),
        }


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table.

    Attributes:
        version: The Delta table's version.
        position: Of its data.
        committed: The time of the commit, by the committer's clock.
    """

    version: int
    position: Position
    committed: datetime


class Positions:
    """The positions of one table's versions, each read once."""

    def __init__(self, table: StorePlace, owner: Owner) -> None:
        self._place = table
        self._owner = owner
        self._log = DeltaLog(table)
        self._known: dict[int, Position] = {}

    def remember(self, version: int, position: Position) -> None:
        """Notes the position of a version."""
        self._known[version] = position

    def check_owner(self, table: DeltaTable) -> None:
        """Makes sure that the position of an opened table is known. Raises what ``of`` does."""
        if table.transaction_version(self._owner.position_transaction) is None:
            raise self._foreign()
        self.of(table)

    def of(self, table: DeltaTable, version: int | None = None) -> Position:
        """The position of the data in an opened table, or in an older version of it.

        Raises:
            SparkError: ``TM-SPK-009`` for a table that was not kept from this log, ``TM-SPK-016`` when others changed
                its rows, ``TM-SPK-017`` when it is another target's.
        """
        walked = []
        version = table.version() if version is None else version
        while (position := self._known.get(version)) is None:
            walked.append(version)
            commit = self._log.commit(version)
            if commit is None:
                position = self._from_transactions(table, version)
                break
            position = self._stated(commit)
            if position is not None:
                break
            version = self._before(commit)
        for version in walked:
            self._known[version] = position
        return position

    def versions(self, table: DeltaTable) -> Iterator[TableVersion]:
        """The versions of a table that can be read and whose position is known, from the newest back.

        Raises:
            SparkError: ``TM-SPK-015``
        """
        missing: set[str] = set()
        there: frozenset[str] | None = None
        for version in range(table.version(), self._log.oldest_version() - 1, -1):
            commit = self._log.commit(version)
            if commit is None:
                return
            if not missing and (position := self._known_of(table, version)) is not None:
                yield TableVersion(version, position, commit.committed)
            added, removed = commit.files
            missing -= added
            if removed and there is None:
                there = frozenset(entry.path for entry in self._place.store.list(""))
            missing |= {path for path in removed if unquote(path) not in (there or ())}

    def _known_of(self, table: DeltaTable, version: int) -> Position | None:
        try:
            return self.of(table, version)
        except SparkError as error:
            if error.code == "TM-SPK-016":
                return None
            raise

    def _stated(self, commit: LoggedCommit) -> Position | None:
        """The position that a commit of ours states; None for other commits."""
        info: dict[str, Any] = {**commit.info, **_user_metadata(commit)}
        if _POSITION not in info:
            return None
        if info.get(_LOG) != self._owner.log_id:
            raise self._foreign()
        if info.get(_TARGET) != self._owner.target:
            raise self._other_target(str(info.get(_TARGET)))
        return Position(
            offset=int(info[_POSITION]),
            before=int(info.get(_BEFORE, 0)),
            generation=int(info.get(_GENERATION, 1)),
            events=int(info.get(_EVENTS, -1)),
            over=int(info.get(_OVER, 0)),
        )

    def _before(self, commit: LoggedCommit) -> int:
        """The earlier version that has the same rows as a foreign commit."""
        if commit.version == 0:
            raise self._foreign()
        if commit.operation == "RESTORE":
            return self._with_same_files(commit)
        if not commit.changes_data and commit.operation not in _TAKE_COLUMNS:
            return commit.version - 1
        raise SparkError(
            "TM-SPK-016", f"{self._place}: version {commit.version} ({commit.operation}) was written by another program"
        )

    def _with_same_files(self, restore: LoggedCommit) -> int:
        """The newest version before a RESTORE whose files are those after it, and whose columns may be.

        What the RESTORE says of its target depends on the engine, and may be a time.
        """
        lacked: set[str] = set()
        extra: set[str] = set()
        commit: LoggedCommit | None = restore
        while commit is not None and commit.version:
            added, removed = commit.files
            # Undone: files that it added were not there before, those that it removed were.
            lacked, extra = lacked | (added - extra), extra - added
            lacked, extra = lacked - removed, extra | (removed - lacked)
            version = commit.version - 1
            commit = self._log.commit(version)
            undone = restore.changes_columns and commit is not None and commit.operation in _TAKE_COLUMNS
            if not lacked and not extra and not undone:
                return version
        raise SparkError(
            "TM-SPK-016",
            f"{self._place}: version {restore.version} restored a version that the table's log no longer has",
        )

    def _from_transactions(self, table: DeltaTable, version: int) -> Position:
        """The position by the table's transactions, where the log begins behind ``version``.

        They survive a RESTORE, so they count only if all commits since our last one were seen.
        """
        position, before, generation, events, over = map(table.transaction_version, self._owner.transactions)
        if position is None:
            raise self._foreign()
        last = table.transaction_version(self._owner.version_transaction)
        if last is None:
            raise self._other_target("another")
        if last != version:
            raise SparkError(
                "TM-SPK-016",
                f"{self._place}: the commits after version {last} were removed from the table's log: it is unknown "
                "whether they changed rows",
            )
        return Position(
            position,
            before or 0,
            1 if generation is None else generation,
            -1 if events is None else events,
            over or 0,
        )

    def _foreign(self) -> SparkError:
        return SparkError("TM-SPK-009", f"{self._place} holds a Delta table that was not kept from this change log")

    def _other_target(self, target: str) -> SparkError:
        return SparkError("TM-SPK-017", f"{self._place} is a copy of {target}, not {self._owner.target}")


def _user_metadata(commit: LoggedCommit) -> dict[str, Any]:
    """What an engine's commit was told to carry, where it is JSON as ours is."""
    try:
        told = json.loads(commit.info.get("userMetadata") or "null")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
