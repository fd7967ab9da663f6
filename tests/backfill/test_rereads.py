"""The reread list: which keys stay on it."""

from __future__ import annotations

from tidemark.backfill.limits import LIMITS
from tidemark.backfill.rereads import RereadList


def _never() -> None:
    raise AssertionError("the list is short")


def test_a_key_that_is_requested_while_it_is_read_is_read_again() -> None:
    rereads = RereadList(_never, LIMITS)
    rereads.request(b"1")
    assert rereads.lease(9) == (b"1",)
    rereads.request(b"1")  # The snapshot that reads it may be older than what asks for it now.
    rereads.settle(b"1", True)
    assert rereads.lease(9) == (b"1",)
    rereads.settle(b"1", True)
    assert list(rereads) == []


def test_a_request_counts_once_where_the_chunk_is_abandoned() -> None:
    rereads = RereadList(_never, LIMITS)
    rereads.request(b"1")
    rereads.request(b"1")
    for _ in range(2):
        assert rereads.lease(9) == (b"1",)
        rereads.request(b"1")
        rereads.release([b"1"])
    assert rereads.lease(9) == (b"1",)
    rereads.settle(b"1", True)
    assert list(rereads) == []
