"""Rows that differ are read again by their keys, if they are not too many."""

from __future__ import annotations

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tidemark.protocol.errors import SourceError
from tidemark.runtime.steering.waiting_commands import WaitingCommands
from tidemark.runtime.upkeep.repairs import Repairs
from tidemark.runtime.verification.findings import MOST_NAMED, Comparison, Found, Kind, Named
from tidemark.runtime.verification.subjects import Subject

SUBJECT = Subject("public.t", "public/t")
ROW = {"rows": {"first": 1, "count": 1}}


def comparison(kind: Kind, keys: range, count: int | None = None) -> Comparison:
    found = Comparison(named=[Named(kind, str(key), [key]) for key in keys])
    found.counts[kind] = len(keys) if count is None else count
    return found


@pytest.fixture
def repairs(folder: CaptureFolder) -> Repairs:
    folder.script([OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await": 1}])
    assert folder.run("capture", str(folder.file), "--until-caught-up").returncode == 0
    return Repairs(folder.state, folder.log, "shop.yaml")


def test_what_differs_in_the_log_and_in_spark_is_read_again_once(folder: CaptureFolder, repairs: Repairs) -> None:
    repairs.ask(SUBJECT, Found(comparison(Kind.MISSING, range(3)), comparison(Kind.TOO_MANY, range(2, 5))))
    (command,) = WaitingCommands.of(folder.state, folder.log_store).waiting(0)
    assert (command.action, command.tables, command.keys) == ("repair", ["public.t"], [[0], [1], [2], [3], [4]])
    repairs.check()


def test_nothing_is_asked_for_where_nothing_differs(folder: CaptureFolder, repairs: Repairs) -> None:
    repairs.ask(SUBJECT, Found(Comparison(rows=3, compared=3)))
    assert WaitingCommands.of(folder.state, folder.log_store).waiting(0) == []
    assert repairs.done(lambda _: None) == {}


@pytest.mark.parametrize(("kind", "truncates"), [(Kind.DIFFERENT, False), (Kind.TOO_MANY, True)])
def test_too_many_are_refused_with_what_to_do(
    folder: CaptureFolder, repairs: Repairs, kind: Kind, truncates: bool
) -> None:
    repairs.ask(SUBJECT, Found(comparison(kind, range(MOST_NAMED), count=100_000)))
    assert WaitingCommands.of(folder.state, folder.log_store).waiting(0) == []
    with pytest.raises(SourceError, match=r"100,000 rows of public\.t differ") as refused:
        repairs.check()
    assert refused.value.code == "TM-RUN-032"
    assert "tidemark backfill shop.yaml --table public.t" in refused.value.message
    assert ("--truncate" in refused.value.message) is truncates
