"""Who may write a log in a bucket: no lock of one machine reaches the others, and a sign of life does."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.runtime.scripted_sessions import Recorder
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store, StoreUnavailableError
from tidemark.runtime.progress import sign_of_life
from tidemark.runtime.progress.state_folder import STATUS, StateFolder
from tidemark.runtime.progress.status_file import StatusFile, read_status
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.testing.deadline import wait_until
from tidemark.testing.object_store import S3Server


@pytest.fixture
def store(s3: S3Server) -> Store:
    return s3.place()


def owned(store: Store, folder: Path, *, take_over: bool = False) -> OwnedLog:
    """The log, for a capture on the machine that has this state folder."""
    return OwnedLog(store, "shop", StateFolder([folder]), take_over=take_over)


def is_refused(store: Store, folder: Path) -> bool:
    try:
        with owned(store, folder):
            return False
    except ChangeLogError as error:
        assert error.code == "TM-LOG-015"
        assert store.place in error.message and "gave a sign of life" in error.message
        return True


def test_another_machine_does_not_take_the_log_of_a_capture_that_lives(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with owned(store, here) as log, StatusFile(log.folder, store, Recorder()) as status:
        status.begin()
        wait_until(lambda: store.exists(STATUS), 60, "a sign of life")
        assert is_refused(store, there)
        log.drop_writer()
        assert log.writer().epoch == 2, "the capture itself opens its log again"
        with owned(store, there, take_over=True), pytest.raises(ChangeLogError) as fenced:
            log.writer().commit(log.writer().begin(), {}, 0)
        assert fenced.value.code == "TM-LOG-007"
        assert (read_status(StateFolder([there]), store) or {})["outcome"] == "running"
    assert (read_status(StateFolder([there]), store) or {})["outcome"] == "caught up"
    assert not is_refused(store, there), "a capture that has ended says so"
    # As if it was killed.
    last = sign_of_life.given(store) or {}
    store.replace(STATUS, sign_of_life.as_json({**last, "ended": None}))
    assert is_refused(store, there)
    monkeypatch.setattr(sign_of_life, "DEAD_SECONDS", 0)
    assert not is_refused(store, there)


def test_what_was_killed_is_started_again_at_once(store: Store, tmp_path: Path) -> None:
    with owned(store, tmp_path) as log:
        status = StatusFile(log.folder, store, Recorder())
        store.replace(STATUS, sign_of_life.as_json(status.report()))
    assert is_refused(store, tmp_path / "another")
    assert not is_refused(store, tmp_path), "its lock is free, so it is dead"


def test_a_sign_that_cannot_be_read_is_no_permission(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace(STATUS, sign_of_life.as_json({"pid": 1, "host": "another", "ended": None}))
    assert is_refused(store, tmp_path)
    read = store.read

    def away(path: str, start: int = 0, length: int | None = None) -> bytes:
        if path == STATUS:
            raise StoreUnavailableError(errno.EIO, "timed out", store.where(path))
        return read(path, start, length)

    monkeypatch.setattr(store, "read", away)
    with pytest.raises(ChangeLogError) as caught, owned(store, tmp_path):
        pass
    assert caught.value.code == "TM-LOG-017"
