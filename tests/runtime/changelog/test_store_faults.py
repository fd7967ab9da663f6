"""A store that fails now and then: nothing that was acknowledged is lost, and nothing is there twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import RETRIED, opened
from tidemark.runtime.changelog.events import segment_events
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.testing.http_faults import Fault, HttpFaults, http_faults
from tidemark.testing.object_store import S3Server

COMMITS = 10


@contextmanager
def through_faults(
    s3: S3Server, choose: Callable[[str, str], Fault], retried: timedelta = RETRIED
) -> Iterator[tuple[Store, Store, HttpFaults]]:
    """One place by way of a proxy with faults, and without."""
    place = f"s3://{s3.bucket()}/shop.log"
    with http_faults(s3.endpoint, choose) as proxy:
        faulty = opened(place, replace(s3.settings, endpoint=proxy.address), retried)
        yield faulty, opened(place, s3.settings), proxy


def write(store: Store) -> int:
    """Commits orders in order, and opens the log again where a write failed. Returns how many were acknowledged."""
    acknowledged = 0
    while acknowledged < COMMITS:
        try:
            with LogWriter.open(store, "shop") as log:
                next_id = log.state.get("next", 0)
                assert next_id >= acknowledged, "what was acknowledged is there"
                while next_id < COMMITS:
                    batch = log.begin()
                    batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(next_id, note="x" * 50)])
                    log.commit(batch, {"next": next_id + 1}, 1)
                    next_id = acknowledged = next_id + 1
                return acknowledged
        except ChangeLogError as error:
            assert error.code in ("TM-LOG-008", "TM-LOG-017")
    return acknowledged


def stored(store: Store) -> list[int]:
    log = ChangeLog(store)
    return [event["id"] for _, one in log.segments_of_all(0, log.end()) for event in segment_events(log, one)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.name)
def test_every_fifth_request_fails(s3: S3Server, fault: Fault) -> None:
    dice = random.Random(fault.name)
    with through_faults(s3, lambda *_: fault if dice.random() < 0.2 else Fault.NONE) as (faulty, store, proxy):
        assert write(faulty) == COMMITS
        assert stored(faulty) == list(range(COMMITS))
    assert proxy.done[fault] > 3
    assert stored(store) == list(range(COMMITS))
    assert [*LogCheck(ChangeLog(store)).damages()] == []


def test_all_faults_at_random(s3: S3Server) -> None:
    dice, faults = random.Random(5), [*Fault]
    with through_faults(s3, lambda *_: dice.choice(faults) if dice.random() < 0.3 else Fault.NONE) as (
        faulty,
        store,
        proxy,
    ):
        assert write(faulty) == COMMITS
    assert len(proxy.done) > 4
    assert stored(store) == list(range(COMMITS))
    assert [*LogCheck(ChangeLog(store)).damages()] == []


def test_a_store_that_is_away_is_an_error_that_names_it_and_passes(s3: S3Server) -> None:
    away: list[bool] = []

    def choose(*_: str) -> Fault:
        return Fault.UNAVAILABLE if away else Fault.NONE

    with through_faults(s3, choose, timedelta(seconds=1)) as (faulty, store, _), LogWriter.open(faulty, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
        (batch := log.begin()).add(orders, [order(0)])
        log.commit(batch, {"next": 1}, 1)
        (batch := log.begin()).add(orders, [order(1)])
        away.append(True)
        with pytest.raises(ChangeLogError) as caught:
            log.commit(batch, {"next": 2}, 1)
        assert caught.value.code == "TM-LOG-008"
        assert caught.value.message.startswith(f"cannot write {store.place}/data/public/orders/")
        assert "503" in caught.value.message and s3.secret not in caught.value.message
        away.clear()
    assert write(store) == COMMITS
    assert stored(store) == list(range(COMMITS))
