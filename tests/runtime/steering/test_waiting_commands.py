"""Commands to a capture: in its state folder, or in a log that is an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.actions import Action
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import Control
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.progress.state_folder import CONTROL, StateFolder
from tidemark.runtime.steering.waiting_commands import WaitingCommands

PAUSE = Control(sequence=1, action=Action.PAUSE, tables=["public.t"])
RESUME = Control(sequence=1, action=Action.RESUME)


@pytest.fixture(params=["directory", "bucket"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A change log without a commit."""
    store: Store = DirectoryStore(tmp_path / "log")
    if request.param == "bucket":
        store = request.getfixturevalue("s3").place()
    with LogWriter.open(store, "shop"):
        return store


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    found = StateFolder([tmp_path / "state"])
    found.take("log").release()
    return found


@pytest.fixture
def commands(folder: StateFolder, log: Store) -> WaitingCommands:
    return WaitingCommands.of(folder, log)


def test_commands_are_numbered_in_turn_and_kept(folder: StateFolder, log: Store) -> None:
    assert [WaitingCommands.of(folder, log).give(PAUSE), WaitingCommands.of(folder, log).give(RESUME)] == [1, 2]
    commands = WaitingCommands.of(folder, log)
    assert [(command.sequence, command.action, command.tables) for command in commands.waiting(0)] == [
        (1, Action.PAUSE, ["public.t"]),
        (2, Action.RESUME, []),
    ]
    assert [command.sequence for command in commands.waiting(1)] == [2]


def test_what_was_handled_is_forgotten_and_its_number_never_given_again(commands: WaitingCommands, log: Store) -> None:
    commands.give(PAUSE)
    commands.give(RESUME)
    with LogWriter.open(log, "shop") as writer:
        writer.commit(writer.begin(), {"control": 2}, 1)
    commands.forget(2)
    assert commands.waiting(0) == []
    assert commands.give(PAUSE) == 3


def test_a_file_that_is_no_command_is_named_and_stops_no_other(
    commands: WaitingCommands, folder: StateFolder, log: Store
) -> None:
    commands.give(PAUSE)
    commands.give(RESUME)
    assert folder.path is not None
    place = log if log.directory is None else DirectoryStore(folder.path)
    place.replace(path := f"{CONTROL}/00000000000000000001.json", b'{"sequence":1,"action":"dance"}')
    waiting, bad = commands.look(0)
    assert [command.sequence for command in waiting] == [2]
    assert bad.keys() == {1} and bad[1].code == "TM-LOG-002" and path in bad[1].message
    aside = commands.set_aside(1)
    assert commands.look(0) == (waiting, {}) and aside.endswith("01.bad")
    commands.forget(2)
    assert [entry.path for entry in place.list(CONTROL)] == [f"{CONTROL}/00000000000000000001.bad"]


def test_an_order_needs_a_change_log(tmp_path: Path) -> None:
    with pytest.raises(ChangeLogError) as raised:
        WaitingCommands.of(StateFolder([tmp_path]), DirectoryStore(tmp_path / "none")).give(PAUSE)
    assert raised.value.code == "TM-LOG-001"
