"""A connector and a runtime killed right before and after a generation begins and becomes whole: no reader sees it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.end_to_end.generations.clock import ROWS, TABLE, Reader, Writer, create_table
from tests.end_to_end.generations.dying import BEGIN, CONNECTOR, RUNTIME, WHOLE, failpoint
from tests.examples import sample
from tidemark.demo import processes
from tidemark.demo.processes import Command
from tidemark.protocol.changelog import ChangeLog, KnownGeneration, layout
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow]

DYING = Path(__file__).with_name("dying.py")
TYPES = ("double precision", "bigint")
"""Neither can hold all values of the other."""

KILLS = [(process, moment) for process in (CONNECTOR, RUNTIME) for moment in ("before", "after")]


class Armed:
    """A capture whose processes are killed where a test says so.

    Args:
        database: With the table.
        folder: Of the capture.
        patch: Has commands run with failpoints.
    """

    def __init__(self, database: Database, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._places = folder / "failpoints"
        self._places.mkdir()
        command = [sys.executable, "-P", str(DYING), str(self._places)]
        patch.setattr(processes, "TIDEMARK", (*command, "tidemark.runtime"))
        connector = {"command": [*command, "tidemark.connectors.postgres"]}
        slow = {"backfill": {"chunk_rows": ROWS // 4}}
        self.capture = Capture(folder, database, slow, connector, [TABLE])
        self._commands = ExitStack()
        self._running: Command | None = None

    def __enter__(self) -> Armed:
        self._commands.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._commands.close()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Keeps the capture running until something is so, however often its runtime is killed."""

        def met() -> bool:
            if self._running is None or not self._running.running:
                if self._running is not None:
                    assert self._running.wait() == -signal.SIGKILL, self.capture.output.read_text()[-3000:]
                self._running = self._commands.enter_context(self.capture.start())
            return condition()

        wait_until(met, 90, what, every=0.05)

    def arm(self, process: str, moment: str, what: str) -> None:
        Path(self._places, failpoint(process, moment, what)).touch()

    def is_over(self) -> bool:
        """Whether all kills that were armed have been."""
        return not any(self._places.iterdir())

    def told(self, action: str, *options: str) -> bool:
        return self.capture.run(action, "-t", TABLE, *options).status == 0

    @property
    def newest(self) -> KnownGeneration | None:
        """The table's newest generation; None before the first."""
        if not (self.capture.log / layout.HEADER).exists():
            return None
        return ChangeLog(self.capture.log).summary().newest(TABLE.replace(".", "/"))

    @property
    def number(self) -> int:
        """Of the newest generation."""
        return self.newest.number if self.newest else 0

    def is_whole(self) -> bool:
        return self.newest is not None and self.newest.whole is not None


def read_again(armed: Armed, writer: Writer, reader: Reader, kill: tuple[str, str], type_: str | None) -> None:
    """The table is read again, paused in the middle, with a kill at both ends.

    Args:
        type_: That its column gets, so that its rows no longer fit. None if somebody asks for it: then new rows are
            laid over the old ones.
    """
    before = armed.number
    armed.until(lambda: armed.told("pause"), "the table is paused")
    armed.arm(*kill, BEGIN)
    if type_ is None:
        armed.until(lambda: armed.told("backfill", "--truncate"), "it is to be read again")
    else:
        writer.alter(type_)
    armed.until(lambda: armed.is_over() and armed.number > before, "a generation begins")
    ticks = writer.clock + 10
    armed.until(lambda: writer.clock > ticks, "the table is written to")
    assert not armed.is_whole()
    if type_ is None:
        armed.until(lambda: reader.seen.get(armed.number, 0) > ticks, "new rows are shown over the old ones")
    else:
        assert max(reader.seen) <= before
    armed.arm(*kill, WHOLE)
    armed.until(lambda: armed.told("resume"), "the backfill goes on")
    armed.until(lambda: armed.is_over() and armed.is_whole(), "the generation is whole")
    armed.until(lambda: armed.number in reader.seen, "its rows are shown")


def together(kills: list[tuple[str, str]]) -> str:
    return ", ".join(map(" ".join, kills))


@pytest.fixture
def armed(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Armed]:
    """A capture that has read the table."""
    create_table(database)
    with Armed(database, tmp_path, monkeypatch) as armed:
        armed.until(armed.is_whole, "the table is read")
        yield armed


@pytest.mark.drawn(5, of="processes that are killed")
@pytest.mark.parametrize("kills", sample([KILLS, KILLS[::-1]], [KILLS[::3]]), ids=together)
def test_readers_see_one_generation_or_the_next(database: Database, armed: Armed, kills: list[tuple[str, str]]) -> None:
    with Writer(database) as writer, Reader(armed.capture.log) as reader:
        for number, kill in enumerate(kills):
            read_again(armed, writer, reader, kill, TYPES[number % 2])
    assert reader.wrong == []
    assert len(reader.seen) == len(kills) + 1


@pytest.mark.drawn(5, of="processes that are killed")
@pytest.mark.parametrize("kills", sample([KILLS, KILLS[::-1]], [KILLS[1::2]]), ids=together)
def test_readers_see_new_rows_over_the_old_ones_all_the_time(
    database: Database, armed: Armed, kills: list[tuple[str, str]]
) -> None:
    with Writer(database) as writer, Reader(armed.capture.log) as reader:
        for kill in kills:
            read_again(armed, writer, reader, kill, None)
        ticks = writer.clock
        armed.until(lambda: reader.seen[armed.number] > ticks, "later changes are shown")
    assert reader.wrong == []
