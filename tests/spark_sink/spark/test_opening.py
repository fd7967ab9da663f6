"""A session that opens in the background."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.opening import OpeningSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Opener:
    """Opens sessions, of which nothing is known but whether they were stopped, when it is let."""

    def __init__(self, *, ours: bool = True) -> None:
        self.may_open = threading.Event()
        self.opened = self.stopped = 0
        self._ours = ours

    def __call__(self) -> tuple[SparkSession, bool]:
        self.may_open.wait(60)
        self.opened += 1
        return cast("SparkSession", self), self._ours

    def stop(self) -> None:
        self.stopped += 1


def test_it_opens_while_the_caller_goes_on_and_ends_with_the_block() -> None:
    opener = Opener()
    with OpeningSession(opener) as opening:
        opening.begin()
        opening.begin()
        assert opener.opened == 0
        opener.may_open.set()
        assert opening.session() is opening.session() is cast("SparkSession", opener)
        assert opener.stopped == 0
    assert (opener.opened, opener.stopped) == (1, 1)


def test_a_session_that_nobody_asks_for_is_not_opened() -> None:
    opener = Opener()
    with OpeningSession(opener):
        pass
    assert opener.opened == 0


def test_one_that_was_begun_for_nothing_is_stopped_too() -> None:
    opener = Opener()
    opener.may_open.set()
    with pytest.raises(ValueError, match="of the caller"), OpeningSession(opener) as opening:
        opening.begin()
        raise ValueError("of the caller")
    assert (opener.opened, opener.stopped) == (1, 1)


def test_another_ones_session_is_left_alone() -> None:
    opener = Opener(ours=False)
    opener.may_open.set()
    with OpeningSession(opener) as opening:
        opening.session()
    assert opener.stopped == 0


def test_an_interrupted_program_does_not_wait_for_a_session() -> None:
    opener = Opener()
    with pytest.raises(KeyboardInterrupt), OpeningSession(opener) as opening:
        opening.begin()
        raise KeyboardInterrupt
    assert opener.opened == 0
    opener.may_open.set()


@pytest.mark.parametrize("ahead", [True, False])
def test_why_it_cannot_open_is_the_error_of_whoever_asks(*, ahead: bool) -> None:
    def fail() -> tuple[SparkSession, bool]:
        raise SparkError("TM-SPK-001", "no Java")

    with pytest.raises(SparkError, match="no Java"), OpeningSession(fail) as opening:
        if ahead:
            opening.begin()
        opening.session()
