"""``kill -9`` at any moment: the log opens, is whole, has every acknowledged commit, and goes on without a gap."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.examples import sample
from tests.runtime.changelog.shop import data_files, named_files, stored
from tests.runtime.changelog.writers import check, lines, writing
from tests.runtime.changelog.writing_process import LINES
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.testing.object_store import S3Server

KILLS = sample(15, 10)


@pytest.fixture(params=["directory", "bucket"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store | Path:
    if request.param == "directory":
        return tmp_path / "log"
    s3: S3Server = request.getfixturevalue("s3")
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    return s3.place()


@pytest.mark.drawn(1)
@pytest.mark.slow
def test_killed_at_random_moments(log: Store | Path) -> None:
    rng, acknowledged = random.Random(7), -1
    for kill in range(KILLS if isinstance(log, Path) else KILLS // 3):
        with writing(log, kill) as process:
            output = lines(process)
            assert next(output) == ["open", str(kill + 1)]
            # However busy the machine is, some commits come first; then any moment of the next one.
            for _ in range(rng.randrange(1, 4)):
                acknowledged = int(next(output)[1])
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            for word, number, *_ in output:
                assert word == "commit"
                acknowledged = int(number)
        check(log, acknowledged)
    with LogWriter.open(log, "shop") as writer:
        ids = list(range(writer.state["next"]))
    assert len(ids) > 100
    assert [event["id"] for event in stored(log)] == ids
    assert [event["id"] for event in stored(log, LINES)] == [id for id in ids for _ in range(2)]
    # What the killed ones had not committed is gone.
    assert data_files(log) == named_files(log)
    assert not isinstance(log, Path) or [path.name for path in log.rglob("*.tmp")] == []


@pytest.mark.slow
def test_killed_while_it_opens(tmp_path: Path) -> None:
    root, rng = tmp_path / "log", random.Random(11)
    for attempt in range(12):
        with writing(root, attempt) as process:
            time.sleep(rng.uniform(0, 0.03))
            process.kill()
    with LogWriter.open(root, "shop") as log:
        check(root, log.summary.number)
    # One that died before it had claimed the log has the epoch of the next. What it left goes with the one after that.
    LogWriter.open(root, "shop").close()
    assert data_files(root) == named_files(root)
    assert [path.name for path in root.rglob("*.tmp")] == []
