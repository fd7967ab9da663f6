"""A capture of table ``t``, and what it has of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.captures.column_identities import shown
from tests.captures.impatient import impatient
from tests.captures.session import Json, Session, apply, bindings, replay, session
from tests.captures.source_tables import endpoint
from tidemark.testing.servers.postgres import Database

SECONDS = 60


@contextmanager
def capturing(
    database: Database,
    state: Json | None = None,
    *,
    tables: Sequence[str] = ("public.t",),
    stop: bool = False,
    resource: Json | None = None,
    look: float = 0.2,
    env: dict[str, str] | None = None,
    **config: Any,
) -> Iterator[Session]:
    """A capture by a connector that looks all the time. A first one makes publication and slot."""
    settings = endpoint(database, **config)
    bound = bindings(*tables, **(resource or {}))
    if state is None:
        apply(settings, bound)
    command = impatient("tidemark.connectors.postgres", 0.5, look)
    with session(settings, bound, state, stop=stop, command=command, env=env) as capture:
        yield capture


def made(database: Database, *tables: str) -> Json:
    """Makes publication and slot, and returns the state of a capture that has not begun."""
    apply(endpoint(database), bindings(*(tables or ("public.t",))))
    return {}


def since_emptied(capture: Session) -> list[tuple[int, Json]]:
    """The documents of bindings from where each was emptied last, with that: before, keys may have been others."""
    emptied = {binding: at for at, (binding, doc) in enumerate(capture.documents) if doc["_meta"]["op"] == "t"}
    return [each for at, each in enumerate(capture.documents) if at > emptied.get(each[0], -1)]


def kept(capture: Session, key: Sequence[str] = ("id",), binding: int = 0) -> Counter[str]:
    """The rows that documents give, each as text, and how often; of a table without a key all that came in."""
    documents = [document for index, document in since_emptied(capture) if index == binding]
    if key:
        return Counter(json.dumps(row, sort_keys=True) for row in replay(documents, key).values())
    rows: Counter[str] = Counter()
    for document in documents:
        row = json.dumps(shown(document), sort_keys=True)
        if document["_meta"]["op"] == "c":
            rows[row] += 1
    return rows


def held(database: Database, query: str = "SELECT * FROM t") -> Counter[str]:
    """The rows that the table has, each as text, and how often."""
    with database.session() as connection:
        found = connection.execute(f"SELECT to_jsonb(r) FROM ({query}) r").fetchall()
    return Counter(json.dumps(row, sort_keys=True) for (row,) in found)


def operations(capture: Session, since: int = 0) -> Counter[str]:
    """How many documents of each kind came, of backfills ``s``."""
    return Counter(
        "s"
        if document["_meta"]["op"] == "c" and document["_meta"]["source"].get("snapshot")
        else document["_meta"]["op"]
        for _, document in capture.documents[since:]
    )
