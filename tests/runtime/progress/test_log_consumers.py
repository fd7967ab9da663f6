"""``tidemark log consumers``: who reads a log, how far behind it is, and how one is forgotten."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.runtime.changelog.compaction.logs import compact, trim
from tests.runtime.changelog.retention.trimmed import plain
from tests.runtime.changelog.writers import place_of
from tests.warm_process import run_to_its_end
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog, Consumer, layout
from tidemark.protocol.changelog.consumers import consumers, register
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.diagnosis.change_log import look_at_readers
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.progress.log_consumers import consumer_lags, kept_and_read


@pytest.mark.drawn(1)
def test_how_far_they_are(store: Store) -> None:
    with LogWriter.open(store, "shop") as log:
        plain(log, 30)
        compact(log)
        for name, position in (("hourly", 30), ("nightly", 12), ("dashboard", 25)):
            register(store, name, position)
    found = ChangeLog(store)
    lags = {one.name: one for one in consumer_lags(found)}
    assert [(name, one.behind, one.lost) for name, one in lags.items()] == [
        ("nightly", 18, 0),
        ("dashboard", 5, 0),
        ("hourly", 0, 0),
    ]
    assert lags["hourly"].since is None
    assert lags["nightly"].since == found.time_of(12) < found.time_of(25) == lags["dashboard"].since


def test_one_that_registered_when_its_events_were_gone(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "log")
    with LogWriter.open(store, "shop") as log:
        plain(log, 120)
        trim(log)
    register(store, "late", 10)
    found = kept_and_read(ChangeLog(store))
    (lag,) = found.consumers
    assert (lag.behind, lag.lost, found.first_offset) == (110, 90, 100)
    shown = run_to_its_end([*TIDEMARK, "status", str(tmp_path / "log")]).stdout
    assert "\nevents   120, kept from offset 100 on\nconsumer late: 110 events behind the log for " in shown
    assert ", 90 of them not kept any more; seen " in shown
    told = json.loads(run_to_its_end([*TIDEMARK, "status", str(tmp_path / "log"), "--json"]).stdout)
    assert (told["first_offset"], told["consumers"]) == (100, {"late": lag.as_json()})
    (damaged,) = (tmp_path / "log" / "consumers").glob("*.json")
    damaged.write_text("{")
    shown = run_to_its_end([*TIDEMARK, "status", str(tmp_path / "log")]).stdout
    assert (
        "\nevents   120, kept from offset 100 on\nconsumer unknown: TM-LOG-002: " in shown and "what to do: " in shown
    )


@pytest.mark.drawn(1)
def test_the_command(store: Store) -> None:
    with LogWriter.open(store, "shop") as log:
        plain(log, 12)
    command = [*TIDEMARK, "log", "consumers", place_of(store)]
    assert run_to_its_end(command).stdout == "no consumers\n"
    register(store, "nightly", 10)
    register(store, "hourly", 12)
    table = run_to_its_end(command).stdout.splitlines()
    assert [(line.split()[0], line.split()[1], line.split()[-1]) for line in table[1:]] == [
        ("10", "2", "nightly"),
        ("12", "0", "hourly"),
    ]
    assert max(map(len, table)) <= 80
    first, _ = map(json.loads, run_to_its_end([*command, "--json"]).stdout.splitlines())
    assert (first["name"], first["position"], first["behind"], first["lost"]) == ("nightly", 10, 2, 0)

    wrong = run_to_its_end([*command, "--remove", "nightli"])
    assert wrong.returncode == 2
    assert "has no consumer nightli" in wrong.stderr and "nightly" in wrong.stderr
    removed = run_to_its_end([*command, "--remove", "nightly"])
    assert removed.returncode == 0, removed.stderr
    assert [one.name for one in consumers(store)] == ["hourly"]


def test_doctor_names_one_that_was_not_seen_for_long(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "log")
    with LogWriter.open(store, "shop") as log:
        plain(log, 12)
    register(store, "hourly", 3)
    away = Consumer(name="nightly", position=5, updated=datetime.now(UTC) - timedelta(days=8))
    store.replace(f"{layout.CONSUMERS}/{layout.consumer_name('nightly')}", away.model_dump_json().encode())
    findings = Findings()
    look_at_readers(ChangeLog(store), ChangeLog(store).summary(), findings)
    oldest, found = findings.all
    assert oldest.message == "the consumer hourly needs all events since offset 3: the log begins at 0"
    assert (found.code, found.level) == ("TM-RUN-028", "warning")
    assert "nightly" in found.message and "log consumers" in found.remedy
