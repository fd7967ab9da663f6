"""Reading commits: what a log says, and every way in which it can be broken."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.changelog import (
    ChangeLog,
    Column,
    Commit,
    Consumer,
    LogHeader,
    Segment,
    StateChange,
    TableSchema,
    layout,
)
from tidemark.protocol.changelog.models import FORMAT_VERSION, Summary
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.errors import ChangeLogError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = TableSchema(collection="t", columns=[Column(name="id", type="bigint", nullable=False)], key=["id"])


def segment(first: int, last: int, collection: str = "t") -> Segment:
    return Segment(
        collection=collection,
        path=layout.segment_path(collection, first, 1, 0),
        rows=last - first + 1,
        size=100,
        uncompressed=100,
        first_offset=first,
        last_offset=last,
        fingerprint=SCHEMA.fingerprint,
    )


def commit(number: int, first: int, end: int, **fields: Any) -> Commit:
    segments = [segment(first, end - 1)] if end > first else []
    made: dict[str, Any] = {"epoch": 1, "time": NOW, "segments": segments} | fields
    return Commit(number=number, first_offset=first, next_offset=end, **made)


def make_log(root: Path, *commits: Commit, **header: Any) -> Path:
    (root / "commits").mkdir(parents=True)
    body = LogHeader(log_id="x", capture="shop", created=NOW).model_dump(mode="json") | header
    (root / "tidemark.json").write_text(json.dumps(body))
    for each in commits:
        add(root, each)
    return root


def add(root: Path, each: Commit) -> None:
    (root / "commits" / layout.commit_name(each.number)).write_text(each.model_dump_json())


def simple_log(root: Path) -> Path:
    """Commits of 0, 5, 0 and 3 events."""
    return make_log(
        root,
        commit(0, 0, 0),
        commit(1, 0, 5, schemas={SCHEMA.fingerprint: SCHEMA}, state=StateChange(updated={"a": 1, "b": 2})),
        commit(2, 5, 5, state=StateChange(updated={"b": None})),
        commit(3, 5, 8),
    )


def error_of(action: Any) -> ChangeLogError:
    with pytest.raises(ChangeLogError) as caught:
        action()
    return caught.value


def test_a_summary_adds_up(tmp_path: Path) -> None:
    log = ChangeLog(simple_log(tmp_path / "log"))
    assert log.latest() == 3
    summary = log.summary()
    assert (summary.number, summary.next_offset, summary.state) == (3, 8, {"a": 1})
    assert summary.totals["t"].events == 8
    assert summary.claims == {1: 0}
    assert log.schema(SCHEMA.fingerprint) == SCHEMA
    assert log.summary(1).state == {"a": 1, "b": 2}
    assert log.summary() == summary


def test_a_log_without_commits(tmp_path: Path) -> None:
    root = make_log(tmp_path / "log")
    log = ChangeLog(root)
    assert log.latest() == -1
    assert (log.summary().number, log.summary().next_offset) == (-1, 0)
    assert list(log.segments("t", 0, 10)) == []
    add(root, commit(0, 0, 0))
    assert log.latest() == 0


def test_a_log_that_was_only_just_created(tmp_path: Path) -> None:
    root = make_log(tmp_path / "log")
    (root / "commits").rmdir()
    assert ChangeLog(root).latest() == -1


def test_a_reader_sees_new_commits_without_listing_again(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    log = ChangeLog(root)
    assert log.summary().number == 3
    for number in range(4, 10):
        add(root, commit(number, 8, 8, state=StateChange(updated={"n": number})))
    # What it has read already is not read again.
    (root / "commits" / layout.commit_name(2)).write_text("damaged since")
    assert (log.latest(), log.summary().state) == (9, {"a": 1, "n": 9})


def test_a_reader_that_resumes_looks_for_later_commits_only(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    add(root, commit(4, 8, 8))
    (root / "commits" / layout.commit_name(1)).unlink()
    log = ChangeLog(root)
    log.resume(3)
    assert log.latest() == 4, "the directory is not listed"
    assert error_of(lambda: list(log.commits())).code == "TM-LOG-004"


@pytest.mark.parametrize("number", [-1, 4, 10**6])
def test_a_reader_that_resumes_behind_the_log_lists_it(tmp_path: Path, number: int) -> None:
    log = ChangeLog(simple_log(tmp_path / "log"))
    log.resume(number)
    assert (log.latest(), log.summary().number) == (3, 3)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 50), st.integers(0, 50))
def test_offsets_lead_to_commits_and_segments(sizes: list[int], start: int, end: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commits, offset = [], 0
        for number, size in enumerate(sizes):
            commits.append(commit(number, offset, offset + size))
            offset += size
        log = ChangeLog(make_log(Path(folder) / "log", *commits))
        found = log.commit_with_offset(start)
        assert all(each.next_offset <= start for each in commits[:found])
        assert found == len(commits) or commits[found].next_offset > start
        covered = {n for part in log.segments("t", start, end) for n in range(part.first_offset, part.last_offset + 1)}
        assert covered >= set(range(start, min(end, offset)))
        assert list(log.segments("other", start, end)) == []


@pytest.mark.parametrize("place", ["", "absent", "file", "file/below"])
def test_no_log_there(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    error = error_of(lambda: ChangeLog(tmp_path / place))
    assert error.code == "TM-LOG-001"
    assert str(tmp_path / place) in error.message


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    error = error_of(lambda: ChangeLog(make_log(tmp_path / "log", format_version=FORMAT_VERSION + 1)))
    assert error.code == "TM-LOG-003"


def test_a_newer_format_is_refused_as_such_whatever_else_its_header_says(tmp_path: Path) -> None:
    root = make_log(tmp_path / "log", format_version=FORMAT_VERSION + 1)
    header = json.loads((root / layout.HEADER).read_text())
    (root / layout.HEADER).write_text(json.dumps(header | {"compacted": True}))
    assert error_of(lambda: ChangeLog(root)).code == "TM-LOG-003"


@pytest.mark.parametrize("members", [{}, {"of another time": 1}])
def test_an_older_format_is_refused_by_name(tmp_path: Path, members: dict[str, object]) -> None:
    error = error_of(lambda: ChangeLog(make_log(tmp_path / "log", format_version=1, **members)))
    assert error.code == "TM-LOG-012"
    assert f"{tmp_path / 'log'} has format version 1" in error.message
    assert "new log" in error.remedy


def test_a_summary_of_version_3_says_that_nothing_is_replaced(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    path = root / layout.COMMITS / layout.summary_name(0)
    path.write_text(json.dumps(json.loads(ChangeLog(root).summary(0).model_dump_json()) | {"replaced": False}))
    assert ChangeLog(root).summary().number == 3


def test_a_consumer_survives_its_json() -> None:
    consumer = Consumer(name="nightly load", position=8, updated=NOW)
    assert Consumer.model_validate_json(consumer.model_dump_json()) == consumer


@pytest.mark.parametrize("state", [None, [1], "text"])
def test_a_state_that_is_not_an_object_is_damage(tmp_path: Path, state: object) -> None:
    root = simple_log(tmp_path / "log")
    path = root / layout.COMMITS / layout.commit_name(3)
    commit = json.loads(path.read_text())
    path.write_text(json.dumps(commit | {"state": {"updated": state, "merge_patch": False}}))
    error = error_of(ChangeLog(root).summary)
    assert error.code == "TM-LOG-002"
    assert path.name in error.message


def test_something_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    path = root / "commits" / layout.commit_name(3)
    path.unlink()
    path.mkdir()
    error = error_of(ChangeLog(root).summary)
    assert error.code == "TM-LOG-011"
    assert str(path) in error.message


@pytest.mark.parametrize("name", ["tidemark.json", f"commits/{layout.commit_name(1)}"])
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"number": "x"}', "\0" * 100])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    root = simple_log(tmp_path / "log")
    (root / name).write_text(damage)
    error = error_of(lambda: ChangeLog(root).summary())
    assert error.code == "TM-LOG-002"
    assert str(root / name) in error.message


def test_a_field_from_nowhere_is_damage(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    path = root / "commits" / layout.commit_name(1)
    path.write_text(path.read_text().replace('"checkpoints"', '"checkpoint"'))
    assert error_of(ChangeLog(root).summary).code == "TM-LOG-002"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_commit_is_named(tmp_path: Path, number: int) -> None:
    root = simple_log(tmp_path / "log")
    path = root / "commits" / layout.commit_name(number)
    path.unlink()
    log = ChangeLog(root)
    for action in (log.latest, log.summary, lambda: list(log.commits()), lambda: list(log.segments("t", 0, 9))):
        error = error_of(action)
        assert error.code == "TM-LOG-004"
        assert str(path) in error.message


def log_with_a_gap(root: Path, missing: int, following: int) -> tuple[ChangeLog, ChangeLog]:
    """Readers that know commit 0, and of which one has resumed, of a log that lacks so many commits after it."""
    make_log(root, commit(0, 0, 1))
    reader, later = ChangeLog(root), ChangeLog(root)
    later.resume(0)
    assert reader.latest() == 0
    for number in range(missing + 1, missing + following + 1):
        add(root, commit(number, number, number + 1))
    return reader, later


@pytest.mark.parametrize(
    ("missing", "following"), [(1, 1), (2, 1), (4, 3), (7, 7), (11, 2), (15, 1), (100, 100), (500, 500)]
)
def test_a_gap_behind_the_newest_commit_that_is_known_is_no_end(tmp_path: Path, missing: int, following: int) -> None:
    for log in log_with_a_gap(tmp_path / "log", missing, following):
        error = error_of(log.latest)
        assert (error.code, layout.commit_name(1) in error.message) == ("TM-LOG-004", True)


@pytest.mark.parametrize(("missing", "summary"), [(120, 100), (350, 300), (2000, 1500)])
def test_a_summary_tells_of_a_long_gap(tmp_path: Path, missing: int, summary: int) -> None:
    logs = log_with_a_gap(tmp_path / "log", missing, following=1)
    later = Summary(number=summary, epoch=1, time=NOW, next_offset=summary)
    (tmp_path / "log" / "commits" / layout.summary_name(summary)).write_text(later.model_dump_json())

    for log in logs:
        error = error_of(log.latest)
        assert (error.code, layout.commit_name(1) in error.message) == ("TM-LOG-004", True)


def test_a_commit_under_another_name_is_damage(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    folder = root / "commits"
    (folder / layout.commit_name(2)).write_bytes((folder / layout.commit_name(1)).read_bytes())
    error = error_of(ChangeLog(root).summary)
    assert (error.code, "claims to be commit 1" in error.message) == ("TM-LOG-002", True)


def test_a_summary_under_another_name_is_damage(tmp_path: Path) -> None:
    root = simple_log(tmp_path / "log")
    body = ChangeLog(root).summary().model_dump_json()
    (root / "commits" / layout.summary_name(0)).write_text(body)
    assert "claims to be the summary of commit 3" in error_of(ChangeLog(root).summary).message


@pytest.mark.parametrize("after", [commit(3, 0, 0), commit(1, 7, 7), commit(1, 0, 0, epoch=0)])
def test_commits_follow_on(tmp_path: Path, after: Commit) -> None:
    summary = advance(ChangeLog(make_log(tmp_path / "log")).summary(), commit(0, 0, 0))
    assert error_of(lambda: advance(summary, after)).code == "TM-LOG-002"


def test_an_unknown_fingerprint_is_damage(tmp_path: Path) -> None:
    log = ChangeLog(simple_log(tmp_path / "log"))
    assert error_of(lambda: log.schema("0" * 16)).code == "TM-LOG-002"


def test_a_fingerprint_tells_schemas_apart() -> None:
    others = [
        SCHEMA.model_copy(update={"collection": "u"}),
        SCHEMA.model_copy(update={"key": []}),
        SCHEMA.model_copy(update={"columns": [Column(name="id", type="string")]}),
    ]
    prints = {SCHEMA.fingerprint, *(other.fingerprint for other in others)}
    assert len(prints) == 4
    assert SCHEMA.model_copy().fingerprint == SCHEMA.fingerprint


def test_models_survive_their_json(tmp_path: Path) -> None:
    body = commit(1, 0, 5, schemas={SCHEMA.fingerprint: SCHEMA})
    assert Commit.model_validate_json(body.model_dump_json()) == body
    summary = ChangeLog(simple_log(tmp_path / "log")).summary()
    assert type(summary).model_validate_json(summary.model_dump_json()) == summary
