"""Logs for retention: plain commits, generations, and consumers."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog import Consumer, layout
from tidemark.protocol.changelog.models import Generation
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.writer import LogWriter


def plain(log: LogWriter, commits: int) -> None:
    """Commits of one event each."""
    orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
    for _ in range(commits):
        batch = log.begin()
        batch.add(orders, [order(batch.first_offset)])
        log.commit(batch, {"n": batch.number}, 1)


def begin(log: LogWriter, collection: str) -> Generation:
    """The next generation of a table begins."""
    batch = log.begin()
    newest = log.summary.newest(collection)
    assert newest is not None
    one = Generation(
        collection=collection,
        number=newest.number + 1,
        begin=batch.first_offset,
        why="a test",
    )
    batch.generations.append(one)
    log.commit(batch, log.state, 1)
    return one


def become_whole(log: LogWriter, generation: Generation) -> None:
    batch = log.begin()
    batch.generations.append(generation.model_copy(update={"whole": batch.first_offset}))
    log.commit(batch, log.state, 1)


def register(store: Store, name: str, position: int) -> None:
    """A reader says how far it is."""
    one = Consumer(name=name, position=position, updated=datetime.now(UTC))
    store.replace(f"{layout.CONSUMERS}/{layout.consumer_name(name)}", one.model_dump_json().encode())
