"""Has a publication show the captured tables, as far as that is allowed, and finds those that it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psycopg

from captures.contract.errors import LostPosition, SessionEnded
from captures.postgres.config import EndpointConfig
from captures.postgres.server.session import asking
from captures.postgres.server.setup import (
    Made,
    Unpublished,
    ensure_publication,
    lacking,
    owned,
    publication_lost,
    unpublished,
)
from captures.postgres.tables.captured_tables import CapturedTables
from captures.postgres.tables.columns import Table
from captures.postgres.tables.prerequisites import kinds_failure, publication_failures
from captures.postgres.tables.table_record import read_publication
from protocol.errors import SourceError

PUBLISH_SECONDS = 2.0
"""How long publishing a table may wait for others while the log is not read."""


class Publishing:
    """The publication of a source.

    Args:
        followed: The source's tables; its session is the one that is asked.
        made: Takes what was made at the server.
    """

    def __init__(self, config: EndpointConfig, followed: CapturedTables, made: Callable[[Made], None]) -> None:
        self._config = config
        self._followed = followed
        self._made = made

    def lost(self) -> LostPosition:
        """What to say where the publication was dropped."""
        return publication_lost(self._config, self._tables())

    def is_there(self) -> bool:
        """Whether there is a publication, or nothing that it would have to show. Raises SourceError."""
        with asking("looking for the publication"):
            return not self._tables() or unpublished(self._session, self._config.publication, []) is not None

    def publish(self, ended: Callable[[], bool]) -> None:
        """Publishes what is not, as far as that is allowed; tables that cannot be, or stay unpublished, are ``unfit``.

        Raises:
            SourceError: That is all of them.
            SessionEnded: ``ended`` said so while somebody was waited for.
        """
        with asking("reading the publication"):
            # Before they are published: the server would refuse changes of some of them from then on.
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
                self._followed.published_anew()
        self._check_published()

    def publish_again(self, binding: int, *, asked: bool) -> bool:
        """Publishes a table if that needs no waiting: the log is not read meanwhile. Whether it did."""
        if not self._config.create or (table := self._followed.to_publish(binding, asked=asked)) is None:
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

    @property
    def _session(self) -> psycopg.Connection:
        return self._followed.session

    def _tables(self) -> list[Table]:
        """Those that are not left out."""
        return [binding.table for binding in self._followed.captured]

    def _publish_some(self, tables: Sequence[Table], refused: Unpublished, ended: Callable[[], bool]) -> Made | None:
        """After it was refused for all: the user's own tables, which need no other role."""
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
        """Finds tables whose changes are not in the log, which would not be noticed otherwise."""
        with asking("reading the publication"):
            tables = self._tables()
            missing = unpublished(self._session, self._config.publication, tables)
            if missing is None:
                raise lacking(self._session, self._config, tables, exists=False)
            self._cannot_publish({t.oid: lacking(self._session, self._config, [t], exists=True) for t in missing})

    def _cannot_publish(self, failures: Mapping[int, SourceError]) -> None:
        """Raises SourceError where these are all tables."""
        captured = self._followed.captured
        if captured and failures.keys() >= {binding.table.oid for binding in captured}:
            raise next(iter(failures.values()))
        for binding in captured:
            if (failure := failures.get(binding.table.oid)) is not None:
                self._followed.cannot_publish(binding, failure)
