"""A connector that hangs is noticed, and one that merely has nothing to say is left alone."""

from __future__ import annotations

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.scripted_sessions import run_session
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import STATUS
from tidemark.runtime.connector.watchdog import Watchdog

BEAT = LogLine(level="info", message="following the log", event_type=STATUS, fields={"position": "1"})
WORDS = LogLine(level="info", message="hello")
BEATING = {"stderr": '{"level":"info","message":"x","eventType":"connectorStatus","fields":{"position":"1"}}'}


class Listening:
    """A runtime that looks once a second, by a clock of its own."""

    def __init__(self, seconds: float = 60, answer: float = 600) -> None:
        self.now = 0.0
        self.dog = Watchdog("it", seconds, answer, lambda: self.now)
        self.dog.opening()

    def listen(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.dog.look()


def test_silence_after_a_heartbeat_is_a_hang() -> None:
    listening = Listening()
    listening.dog.heard(BEAT)
    listening.dog.opened()
    listening.listen(55)
    listening.dog.said()
    listening.listen(55)
    listening.dog.heard(WORDS)
    listening.listen(55)
    with pytest.raises(ConnectorError) as caught:
        listening.listen(10)
    assert caught.value.code == "TM-RUN-019"


def test_a_connector_without_heartbeats_may_be_silent() -> None:
    listening = Listening()
    listening.dog.opened()
    listening.dog.heard(WORDS)
    listening.listen(10_000)


def test_it_may_be_turned_off() -> None:
    listening = Listening(seconds=0)
    listening.dog.opened()
    listening.dog.heard(BEAT)
    listening.listen(10_000)


def test_before_it_is_opened_it_may_take_as_long_as_an_answer() -> None:
    listening = Listening()
    listening.dog.heard(BEAT)
    listening.listen(1)
    listening.dog.opening()
    listening.listen(590)
    with pytest.raises(ConnectorError):
        listening.listen(20)


def test_what_passes_while_nobody_listens_does_not_count() -> None:
    listening = Listening()
    listening.dog.opened()
    listening.dog.heard(BEAT)
    listening.listen(10)
    listening.now += 1000
    listening.listen(40)


def test_a_session_with_a_connector_that_hangs_ends(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"rows": {"first": 1, "count": 1}}, {"checkpoint": {}}, {"await": 1}, BEATING, {"sleep": 1}])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder, silence=1.0)
    assert caught.value.code == "TM-RUN-019"
    assert folder.ids() == [1]
