"""``tidemark log copy``: a copy of a log that lives is a whole log of one of its commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.changelog.compaction.logs import compact
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order, stored
from tests.warm_process import run_to_its_end
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.runtime.upkeep.log_copy import copy_log
from tidemark.testing.object_store import S3Server


def commit(log: LogWriter, count: int) -> None:
    for _ in range(count):
        batch = log.begin()
        batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(batch.number)])
        log.commit(batch, {"n": batch.number}, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        commit(log, 105)
    return tmp_path / "log"


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return DirectoryStore(tmp_path / "a copy")
    s3: S3Server = request.getfixturevalue("s3")
    return s3.place()


def quietly(_: Commit, __: int) -> None:
    """Tells nobody."""


@pytest.mark.drawn(1)
def test_a_copy_is_whole_and_is_brought_up_to_date(root: Path, place: Store) -> None:
    with LogWriter.open(root, "shop") as log:
        uncommitted = log.begin()
        uncommitted.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(0)])
        copied: list[int] = []
        assert copy_log(ChangeLog(root), place, lambda commit, _: copied.append(commit.number)) == 106
        assert copied == list(range(107))
        uncommitted.discard()
        commit(log, 2)
    assert [*LogCheck(ChangeLog(place)).damages()] == []
    assert ChangeLog(place).summary().state == {"n": 105}
    assert copy_log(ChangeLog(root), place, quietly) == 108
    assert ChangeLog(place).summary() == ChangeLog(root).summary()
    # A capture goes on with it.
    with LogWriter.open(place, "shop", ChangeLog(root).header.log_id) as restored:
        commit(restored, 1)
    assert [*LogCheck(ChangeLog(place)).damages()] == []
    with pytest.raises(ChangeLogError) as caught:
        copy_log(ChangeLog(root), place, quietly)
    assert caught.value.code == "TM-LOG-016"


def test_a_copy_that_was_interrupted_before_its_first_commit(root: Path, place: Store) -> None:
    place.create(layout.HEADER, (root / layout.HEADER).read_bytes())
    assert copy_log(ChangeLog(root), place, quietly) == ChangeLog(root).latest()
    assert ChangeLog(place).summary() == ChangeLog(root).summary()


def test_a_copy_of_a_log_that_is_compacted_meanwhile(tmp_path: Path, place: Store) -> None:
    log_of = DirectoryStore(tmp_path / "compacted")
    with LogWriter.open(log_of, "shop") as log:
        commit(log, 40)
        copied: list[int] = []

        def tell(one: Commit, _: int) -> None:
            copied.append(one.number)
            if one.number == 15:
                assert compact(log) > 25  # The segments of what is copied next are gone.

        assert copy_log(ChangeLog(log_of), place, tell) > 40
        assert sorted(copied) == copied
        assert stored(place) == stored(log_of)
        commit(log, 30)
        assert compact(log) > 20
        commit(log, 3)
        assert copy_log(ChangeLog(log_of), place, quietly) == log.summary.number
    assert [*LogCheck(ChangeLog(place)).damages()] == []
    assert ChangeLog(place).summary() == ChangeLog(log_of).summary()
    assert stored(place) == stored(log_of)


def test_a_copy_of_a_compacted_log_is_whole_at_any_moment(tmp_path: Path, place: Store) -> None:
    root = tmp_path / "compacted"
    with LogWriter.open(root, "shop") as log:
        commit(log, 60)
        compact(log)
        commit(log, 5)
    copied: list[int] = []

    def tell(_: Commit, __: int) -> None:
        copied.append(len(stored(place)))
        assert ChangeLog(place).end() <= copied[-1]

    copy_log(ChangeLog(root), place, tell)
    assert copied == sorted(copied)
    assert stored(place) == stored(root)


class Interrupted(Exception):
    """The copy ends here."""


@pytest.mark.drawn(1)
def test_a_copy_that_was_interrupted_is_a_whole_log_and_is_resumed(root: Path, place: Store) -> None:
    def tell(commit: Commit, _: int) -> None:
        if commit.number == 50:
            raise Interrupted

    with pytest.raises(Interrupted):
        copy_log(ChangeLog(root), place, tell)
    assert ChangeLog(place).latest() == 50
    assert [*LogCheck(ChangeLog(place)).damages()] == []
    # As if it had ended within a segment.
    segment = ChangeLog(root).commit(51).segments[0].path
    place.replace(segment, b"PAR1")
    assert copy_log(ChangeLog(root), place, quietly) == 105
    assert [*LogCheck(ChangeLog(place)).damages()] == []


def test_what_is_something_else_is_not_written_over(root: Path, tmp_path: Path) -> None:
    other, full = tmp_path / "other", tmp_path / "full"
    LogWriter.open(other, "shop").close()
    full.mkdir()
    (full / "letter").write_text("to a friend")
    for folder in (other, full):
        before = sorted(folder.rglob("*"))
        with pytest.raises(ChangeLogError) as caught:
            copy_log(ChangeLog(root), DirectoryStore(folder), quietly)
        assert caught.value.code == "TM-LOG-016"
        assert sorted(folder.rglob("*")) == before


def test_the_commands(root: Path, tmp_path: Path) -> None:
    copied = run_to_its_end([*TIDEMARK, "log", "copy", str(root), str(tmp_path / "b")])
    assert copied.returncode == 0, copied.stderr
    assert copied.stdout.startswith(f"{tmp_path}/b has the log up to commit 105: 106 commits and ")
    assert stored(tmp_path / "b") == stored(root)
    shown = run_to_its_end([*TIDEMARK, "log", "show", str(tmp_path / "b"), "7"])
    assert Commit.model_validate_json(shown.stdout) == ChangeLog(root).commit(7)
    absent = run_to_its_end([*TIDEMARK, "log", "show", str(tmp_path / "b"), "107"])
    assert absent.returncode == 2 and "its newest is 105" in absent.stderr
    schemas = run_to_its_end([*TIDEMARK, "log", "schemas", str(tmp_path / "b")]).stdout.splitlines()
    assert schemas[0].startswith("public.orders: 105 events, ")
    assert schemas[1:] == [
        "  id  bigint, key",
        "  note  string",
        "  total  decimal(12,2)",
        "  generation 1 begins at 0, is whole at 0",
    ]
