"""Places in a table's files, and which pages a physical scan reads next.

A table without partitions has one file; a partitioned one those of its partitions, which are read one after another in
the order of their oids. VACUUM FULL, CLUSTER and rewriting ALTER TABLEs give a relation another file (its relfilenode).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tidemark.backfill.keys import Key
from tidemark.protocol.errors import SourceError

UNKNOWN_DENSITY = 50.0
"""Rows in a page of a relation that was never analyzed."""

# Foreign tables among the partitions have no pages, and their rows are not in the log. A snapshot that was imported may
# show names and partitions of before: whether one is there, and its name, is told by functions, which look as of now.
_FILES = """
WITH RECURSIVE parts AS (
    SELECT c.oid, c.relkind, c.relpages, c.reltuples FROM pg_class c WHERE c.oid = {root}
    UNION ALL
    SELECT c.oid, c.relkind, c.relpages, c.reltuples
    FROM parts p
    JOIN pg_inherits i ON i.inhparent = p.oid AND p.relkind = 'p'
    JOIN pg_class c ON c.oid = i.inhrelid
)
SELECT p.oid, p.oid::regclass, pg_relation_filenode(p.oid),
       pg_relation_size(p.oid) / current_setting('block_size')::int,
       CASE WHEN p.relpages > 0 AND p.reltuples > 0 THEN p.reltuples / p.relpages END
FROM parts p
WHERE p.relkind = 'r' AND pg_relation_filenode(p.oid) IS NOT NULL
ORDER BY p.oid
"""


@dataclass(frozen=True, slots=True)
class File:
    """The file of a table or partition. ``pages`` is its size now, ``density`` about how many rows are in a page.

    ``relation`` is its name as SQL of the session that told it: quoted where it must be, and with its schema.
    """

    oid: int
    relation: str
    node: int
    pages: int
    density: float


@dataclass(frozen=True, slots=True)
class Place:
    """The place after a row, or, with line 0, before a page.

    As a cursor or bound it is one text, ``oid/node/page.line`` and perhaps ``/end``.

    Attributes:
        end: How many pages of the file are read: those that there were when its scan began. Rows in later ones come
            through the log. None where a bound has not been reached yet.
    """

    oid: int
    node: int
    page: int
    line: int = 0
    end: int | None = None

    @classmethod
    def parse(cls, key: Key) -> Self:
        """Raises SourceError ``TM-PG-024`` when ``key`` is no such text."""
        try:
            oid, node, position, *end = key.decode().split("/")
            page, line = position.split(".")
            return cls(int(oid), int(node), int(page), int(line), *map(int, end))
        except (ValueError, TypeError):
            raise SourceError("TM-PG-024", "a physical scan's stored place is malformed") from None

    def key(self) -> Key:
        end = "" if self.end is None else f"/{self.end}"
        return f"{self.oid}/{self.node}/{self.page}.{self.line}{end}".encode()


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages to read: of ``file``, from ``start`` to before ``stop``.

    Attributes:
        after: Where the scan goes on when all of them were read; None when it ends then.
    """

    file: File
    start: Place
    stop: int
    after: Place | None


class Rewritten(Exception):
    """A relation has another file than the one that a place is in."""


def files_query(root: int) -> bytes:
    """The query for ``parse_file``'s rows: every file of a table."""
    return _FILES.format(root=int(root)).encode()


def parse_file(row: Sequence[str | None]) -> File:
    """A row of ``files_query`` as text."""
    oid, relation, node, pages, density = row
    return File(int(oid or 0), relation or "", int(node or 0), int(pages or 0), float(density or UNKNOWN_DENSITY))


def next_pages(files: Sequence[File], cursor: Place | None, until: Place | None, rows: int) -> Pages | None:
    """The pages of ``files`` that hold about the next ``rows`` rows; None when the scan is over.

    Raises Rewritten if a place is in a file that is not there any more.
    """
    by_oid = {file.oid: file for file in files}
    for place in (cursor, until):
        # A partition that was dropped or detached has no rows any more; the scan goes on behind it.
        if place is not None and place.oid in by_oid and by_oid[place.oid].node != place.node:
            raise Rewritten
    rest = _rest(files, cursor, until)
    for index, (file, start, last) in enumerate(rest):
        if start.page >= last:
            continue
        stop = min(last, start.page + max(1, math.ceil(rows / file.density)))
        if stop < last:
            after: Place | None = replace(start, page=stop, line=0)
        else:
            after = rest[index + 1][1] if index + 1 < len(rest) else None
        return Pages(file, start, stop, after)
    return None


def page_bounds(files: Sequence[File], cursor: Place | None, until: Place | None, parts: int) -> list[Place]:
    """Places, in order, that cut a scan's rest into up to ``parts`` ranges of about as many pages."""
    spans: list[tuple[File, int, int]] = []
    for file, start, last in _rest(files, cursor, until):
        # The page of the cursor is not cut: some of its rows have been read.
        first = start.page + 1 if cursor is not None and cursor.oid == file.oid else start.page
        if first < last:
            spans.append((file, first, last))
    total = sum(last - first for _, first, last in spans)
    bounds = []
    for part in range(1, parts):
        rest = total * part // parts
        for file, first, last in spans:
            if rest < last - first:
                bounds.append(Place(file.oid, file.node, first + rest))
                break
            rest -= last - first
    # Fewer pages than parts cut at the same place several times, or at the very beginning, which cuts nothing.
    beginning = Place(spans[0][0].oid, spans[0][0].node, 0) if spans and cursor is None else None
    return [bound for bound in dict.fromkeys(bounds) if bound != beginning]


def _rest(files: Sequence[File], cursor: Place | None, until: Place | None) -> list[tuple[File, Place, int]]:
    """What is left of a scan: the files, and of each where it is read from, and the page before which that ends."""
    rest = []
    for file in files:
        if (cursor is not None and file.oid < cursor.oid) or (until is not None and file.oid > until.oid):
            continue
        start = Place(file.oid, file.node, 0, end=file.pages)
        if cursor is not None and cursor.oid == file.oid:
            start = cursor if cursor.end is not None else replace(cursor, end=file.pages)
        last = start.end or 0
        if until is not None and until.oid == file.oid:
            last = min(last, until.page)
        rest.append((file, start, last))
    return rest
