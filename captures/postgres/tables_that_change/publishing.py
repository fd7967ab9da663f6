"""Adds the captured tables to the publication, as far as that is allowed, and finds those that it lacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import psycopg

from tidemark.captures.contract.errors import LostPosition, SessionEnded
from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.table_record import read_publication
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import asking, despite_deadlocks
from tidemark.captures.postgres.server.setup import (
    Made,
    Unpublished,
    ensure_publication,
    lacking,
    owned,
    publication_lost,
    unpublished,
)
from tidemark.captures.postgres.tables.prerequisites import kinds_failure, log_failures, publication_failures
from tidemark.captures.postgres.tables_that_change.captured_tables import CapturedTables
from tidemark.captures.postgres.tables_that_change.column_fills import present
from tidemark.protocol.errors import SourceError

PUBLISH_SECONDS = 2.0
"""How long publishing a table may wait for others while the log is not read."""


class Publishing:
    """The publication of a source; ``made`` is called with everything that was created on the server."""

    def __init__(self, config: EndpointConfig, followed: CapturedTables, made: Callable[[Made], None]) -> None:
        self._config = config
        self._followed = followed
        self._made = made

    def lost(self) -> LostPosition:
        """The error for a publication that was dropped."""
        return publication_lost(self._config, self._tables())

    def is_there(self) -> bool:
        """Whether the publication exists, or no table needs it. Raises SourceError."""
        with asking("looking for the publication"):
            return not self._tables() or unpublished(self._session, self._config.publication, []) is not None

    def publish(self, ended: Callable[[], bool]) -> None:
        """Publishes the tables that are not published, as far as that is allowed. The others become ``unfit``.

        Raises SourceError if no table is left, SessionEnded if ``ended`` while it waited for other transactions.
        """
        despite_deadlocks(partial(self._publish, ended))

    def _publish(self, ended: Callable[[], bool]) -> None:
        with asking("reading the publication"):
            # This comes before publishing, after which the server would refuse changes of some of them.
            failures = dict(publication_failures(self._session, self._config, self._tables()))
            published = read_publication(self._session, self._config.publication)
            if (failure := kinds_failure(self._config, published)) is not None:
                failures = {table.oid: failure for table in self._tables()}
            self._cannot_publish(failures)
        if not (tables := self._tables()):
            return
        with asking("preparing the publication"):
            try:
                made = ensure_publication(self._session, self._config, tables, ended)
            except Unpublished as refused:
                made = self._publish_some(tables, refused, ended)
            if made is not None:
                self._made(made)
                self._followed.published_again()
        self._check_published()

    def publish_again(self, binding: int, *, asked: bool) -> bool:
        """Publishes a table if that needs no waiting, since the log is not read meanwhile. Returns whether it did."""
        if not self._config.create or (table := self._to_publish(binding, asked=asked)) is None:
            return False
        deadline = time.monotonic() + PUBLISH_SECONDS
        try:
            with asking("preparing the publication"):
                made = ensure_publication(self._session, self._config, [table], lambda: time.monotonic() >= deadline)
        except SessionEnded:
            return False  # Somebody holds it: it is tried again.
        except Unpublished:
            return False  # That is said of the table.
        if made is not None:
            self._made(made)
        return made is not None

    def _to_publish(self, index: int, *, asked: bool) -> Table | None:
        """The table as it is now, if it can be captured once it is published; otherwise None.

        A table that was removed from the publication is published again only if ``asked``. A new table with its name is
        published in any case.
        """
        binding = self._followed.bindings[index]
        with asking(f"reading the definition of {binding.name}"):
            table = present(self._session, self._config, binding)
            if table is None or (table.oid == binding.table.oid and not asked):
                return None
            unfit = any(log_failures(self._session, self._config, binding.resource, table))
            unfit = unfit or any(publication_failures(self._session, self._config, [table]))
            return table if not unfit and unpublished(self._session, self._config.publication, [table]) else None

    @property
    def _session(self) -> psycopg.Connection:
        return self._followed.session

    def _tables(self) -> list[Table]:
        """Those that are not left out."""
        return [binding.table for binding in self._followed.captured]

    def _publish_some(self, tables: Sequence[Table], refused: Unpublished, ended: Callable[[], bool]) -> Made | None:
        """Publishes the user's own tables, after the server refused to publish all tables."""
        missing = unpublished(self._session, self._config.publication, tables)
        lacks = tables if missing is None else missing
        published = [table for table in tables if table not in lacks]
        own = owned(self._session, lacks)
        if own and len(own) < len(lacks):
            with suppress(Unpublished):
                return ensure_publication(self._session, self._config, [*published, *own], ended)
        if not published:
            raise refused
        return None

    def _check_published(self) -> None:
        """Leaves out the tables that are not published: nothing else would show that the log lacks their changes."""
        with asking("reading the publication"):
            tables = self._tables()
            missing = unpublished(self._session, self._config.publication, tables)
            if missing is None:
                raise lacking(self._session, self._config, tables, exists=False)
            self._cannot_publish({t.oid: lacking(self._session, self._config, [t], exists=True) for t in missing})

    def _cannot_publish(self, failures: Mapping[int, SourceError]) -> None:
        """Leaves tables out. Raises SourceError if none is left."""
        captured = self._followed.captured
        if captured and failures.keys() >= {binding.table.oid for binding in captured}:
            raise next(iter(failures.values()))
        for binding in captured:
            if (failure := failures.get(binding.table.oid)) is not None:
                self._followed.cannot_publish(binding, failure)
