"""Keys, regions and addresses from the files that AWS's command line and libraries share."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import table
from pydantic import ValidationError

from tidemark.protocol.capture_file.store_entry import StoreEntry
from tidemark.protocol.errors import UsageError
from tidemark.protocol.store import Store
from tidemark.protocol.store.objects import ObjectStore
from tidemark.protocol.store.opening import opened
from tidemark.protocol.store.profiles import ProfileKeys, profile
from tidemark.protocol.store.settings import StoreSettings
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.object_store import S3Server


class Files:
    """The two files of a home."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.config = folder / "config"
        self.credentials = folder / "credentials"

    def write(self, config: str = "", credentials: str = "") -> None:
        self.config.write_text(config)
        self.credentials.write_text(credentials)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A home whose files are empty, and an environment that says nothing."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Files(tmp_path / ".aws")


def keys(server: S3Server) -> str:
    return f"aws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n"


def place(server: S3Server) -> str:
    return f"s3://{server.bucket()}/a/log"


def check(store: Store) -> None:
    """Writes and reads, which a server that looks at keys allows those who have the right one."""
    store.create("a", b"1")
    assert store.read("a") == b"1"


def test_all_that_opens_a_store_stands_in_a_profile(
    files: Files, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    config = f"[profile lake]\nregion = {s3.region}\nendpoint_url = {s3.endpoint}\ns3 =\n  addressing_style = path\n"
    files.write(config, f"[other]\n{keys(s3).replace(s3.secret, 'wrong')}\n[lake]\n{keys(s3)}")
    check(opened(place(s3), StoreSettings(profile="lake")))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    check(opened(place(s3)))
    if s3.name == "versitygw":  # moto takes any key.
        with pytest.raises(PermissionError):
            check(opened(place(s3), StoreSettings(profile="other", endpoint=s3.endpoint, region=s3.region)))


def test_the_default_profile_needs_no_name(files: Files, s3: S3Server) -> None:
    settings = StoreSettings(endpoint=s3.endpoint, allow_http=True, region=s3.region)
    files.write(f"[default]\n{keys(s3)}")
    check(opened(place(s3), settings))
    files.write(f"[default]\nregion = somewhere\n{keys(s3)}")
    store = opened("s3://bucket/a", StoreSettings(endpoint="https://somewhere"))
    assert isinstance(store, ObjectStore)
    assert store.client.config["region"] == "somewhere"  # type: ignore[union-attr, typeddict-item]


def test_a_table_is_opened_by_a_profile(files: Files, s3: S3Server) -> None:
    files.write("", f"[lake]\n{keys(s3)}")
    settings = StoreSettings(endpoint=s3.endpoint, allow_http=True, region=s3.region, profile="lake")
    lake = StorePlace(f"s3://{s3.bucket()}/table", settings)
    write_deltalake(lake.text, table({"id": [1, 2]}), storage_options=delta_storage(lake))
    assert DeltaTable(lake.text, storage_options=delta_storage(lake)).version() == 0


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_the_environment_comes_before_a_profile_that_the_capture_file_does_not_name(
    variable: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("[profile lake]\nregion = there\naws_access_key_id = a\naws_secret_access_key = b\n")
    for name, value in {variable: "x", "AWS_PROFILE": "lake", "AWS_REGION": "here"}.items():
        monkeypatch.setenv(name, value)
    if variable == "AWS_ACCESS_KEY_ID":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    by_environment, by_file = opened("s3://b/a"), opened("s3://b/a", StoreSettings(profile="lake"))
    assert isinstance(by_environment, ObjectStore) and isinstance(by_file, ObjectStore)
    assert by_environment.client.credential_provider is None  # type: ignore[union-attr]
    assert by_file.client.credential_provider is not None  # type: ignore[union-attr]
    assert "region" not in by_file.client.config, "that of the environment counts"  # type: ignore[union-attr]


def test_keys_are_given_by_a_process_and_again_before_they_end(files: Files, tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    script = "import sys; open(sys.argv[2], 'a').write('x'); sys.stdout.write(open(sys.argv[1]).read())"
    asked = tmp_path / "asked times"
    files.write(f"[profile lake]\ncredential_process = \"{sys.executable}\" -c \"{script}\" '{said}' '{asked}'\n")
    for minutes in (60, 2, 2):
        ends = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        said.write_text(
            json.dumps(
                {
                    "Version": 1,
                    "AccessKeyId": f"id {minutes}",
                    "SecretAccessKey": "secret",
                    "SessionToken": "token",
                    "Expiration": ends,
                }
            )
        )
        given = ProfileKeys("lake")
        found = [given() for _ in range(3)]
        assert found[0]["access_key_id"] == f"id {minutes}"
        assert found[0]["token"] == "token"
        assert found[0]["expires_at"] == datetime.fromisoformat(ends)
    assert len(asked.read_text()) == 1 + 3 + 3, "those that end soon are asked for each time"
    first, second = (found.keys for found in (profile("lake"), profile("lake")) if found is not None)
    assert first is second, "all stores of a process have them from one"


def test_a_process_that_fails_for_a_while_ends_nothing(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("[profile lake]\naws_access_key_id = old\naws_secret_access_key = b\n")
    given = ProfileKeys("lake")
    assert given()["access_key_id"] == "old"
    monkeypatch.setattr("tidemark.protocol.store.profiles._EARLY", timedelta(hours=1))
    files.write("[profile lake]\ncredential_process = false\n")
    assert given()["access_key_id"] == "old", "they have not ended"
    files.write("[profile lake]\naws_access_key_id = new\naws_secret_access_key = b\n")
    assert given()["access_key_id"] == "old", "the process is not started for each request"
    monkeypatch.setattr("tidemark.protocol.store.profiles._AFTER_FAILURE", timedelta())
    files.write("[profile lake]\ncredential_process = false\n")
    given._not_before -= timedelta(minutes=1)
    assert given()["access_key_id"] == "old"
    files.write("[profile lake]\naws_access_key_id = new\naws_secret_access_key = b\n")
    assert given()["access_key_id"] == "new"
    files.write("[profile lake]\ncredential_process = false\n")
    monkeypatch.setattr("tidemark.protocol.store.profiles._AFTER_FAILURE", timedelta(hours=1))
    assert given()["access_key_id"] == "new"
    given._given = {**given(), "expires_at": datetime.now(UTC)}
    with pytest.raises(UsageError, match="TM-CFG-014: the credential_process of the profile lake ended with status 1"):
        given()


def test_rotated_keys_are_read_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("[profile lake]\naws_access_key_id = old\naws_secret_access_key = b\n")
    given = ProfileKeys("lake")
    assert given()["access_key_id"] == "old"
    files.write("[profile lake]\naws_access_key_id = new\naws_secret_access_key = b\n")
    assert given()["access_key_id"] == "old"
    monkeypatch.setattr("tidemark.protocol.store.profiles._EARLY", timedelta(hours=1))
    assert given()["access_key_id"] == "new"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("", "there is no profile lake"),
        ("[profile lakes]\nregion = x", "there is no profile lake"),
        ("hidden = 1", "config is not a file of sections"),
        ("[profile lake]\naws_access_key_id = hidden", "the profile lake has aws_access_key_id alone"),
        ("[profile lake]\nsso_session = hidden", "the profile lake has its keys by sso_session"),
        ("[profile lake]\nrole_arn = hidden\nsource_profile = x", "the profile lake has its keys by role_arn"),
    ],
)
def test_a_profile_that_gives_no_keys(config: str, told: str, files: Files) -> None:
    files.write(config)
    with pytest.raises(UsageError, match=f"TM-CFG-014: .*{told}") as caught:
        opened("s3://bucket/a", StoreSettings(profile="lake", region="x"))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-program", "cannot be started: No such file"),
        ("sh -c 'echo hidden; echo hidden >&2; exit 3'", "ended with status 3"),
        ("echo hidden", "did not print keys"),
        ('echo \'{"Version": 2, "AccessKeyId": "hidden"}\'', "did not print keys"),
        ("echo '[]'", "did not print keys"),
    ],
)
def test_a_process_that_gives_no_keys_is_told_by_whoever_asks(command: str, told: str, files: Files) -> None:
    files.write(f"[profile lake]\ncredential_process = {command}\n")
    with pytest.raises(UsageError, match=f"TM-CFG-014: the credential_process of the profile lake {told}") as caught:
        ProfileKeys("lake")()
    assert "hidden" not in str(caught.value)
    store = opened("s3://bucket/a", StoreSettings(profile="lake", region="x"), timedelta(seconds=1))
    with pytest.raises(OSError, match=f"TM-CFG-014: .*{told}") as failed:
        store.read("a")
    assert "hidden" not in str(failed.value)


def test_files_that_may_not_be_read_matter_to_who_names_a_profile(files: Files) -> None:
    files.config.mkdir()
    assert profile(None) is None
    with pytest.raises(UsageError, match=r"TM-CFG-014: .*config cannot be read: Is a directory"):
        profile("lake")


def test_a_key_is_given_once() -> None:
    with pytest.raises(ValidationError, match="give either profile or access_key_id"):
        StoreEntry.model_validate({"profile": "lake", "access_key_id": "x", "secret_access_key": "y"})
    assert StoreEntry.model_validate({"profile": "lake"}).settings(Path()).profile == "lake"
