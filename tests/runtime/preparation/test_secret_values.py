"""Secrets: resolved late, missed clearly, blanked everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.errors import UsageError
from tidemark.protocol.log_lines import LogLine, read_log_line
from tidemark.runtime.connector.secrets import Redactor
from tidemark.runtime.preparation.secret_values import resolve


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "from the environment")
    (tmp_path / "key").write_text("from a file\n")
    config = {"host": "db", "password": {"env": "SHOP_PASSWORD"}, "tls": {"keys": [{"file": "key"}]}}
    resolved, secrets = resolve(config, tmp_path)
    assert resolved == {"host": "db", "password": "from the environment", "tls": {"keys": ["from a file"]}}
    assert secrets.values == {"from the environment", "from a file"}
    assert secrets.short == []
    assert config["password"] == {"env": "SHOP_PASSWORD"}


def test_every_secret_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(UsageError) as caught:
        resolve({"password": {"env": "SHOP_PASSWORD"}, "ca": [{"file": "none.pem"}]}, tmp_path)
    assert caught.value.code == "TM-CFG-003"
    assert "config.password: the environment variable SHOP_PASSWORD is not set" in caught.value.message
    assert "config.ca.0: the file none.pem cannot be read" in caught.value.message


@pytest.mark.parametrize("path", ["~no-such-user/password", "a\0b"])
def test_a_path_that_is_none(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="is not the path of a file") as caught:
        resolve({"password": {"file": path}}, tmp_path)
    assert caught.value.code == "TM-CFG-003"


def test_what_only_looks_like_a_secret_stays(tmp_path: Path) -> None:
    config = {"a": {"env": 3}, "b": {"env": "X", "more": 1}, "c": {"file": None}}
    assert resolve(config, tmp_path)[0] == config


def test_a_password_in_the_file_itself_is_a_secret_too(tmp_path: Path) -> None:
    _, secrets = resolve({"user": "cdc", "password": "hunter22", "api_key": "k1"}, tmp_path)
    assert secrets.values == {"hunter22", "k1"}
    assert secrets.short == ["config.api_key"]


def test_a_secret_of_few_characters_mangles_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_LETTER", "e")
    _, secrets = resolve({"host": {"env": "ONE_LETTER"}, "login": {"password": {"env": "ONE_LETTER"}}}, tmp_path)
    assert secrets.short == ["config.login.password"]
    assert Redactor(secrets.values).text("there is no table") == "there is no table"
    assert Redactor({"1234567"}).text("1234567") == "1234567"


@pytest.mark.parametrize(
    "line",
    [
        '{"level":"error","message":"FATAL: bad password hunter22 for user"}',
        '{"level":"info","msg":"connecting","dsn":"postgres://cdc:hunter22@db/shop"}',
        '{"level":"info","message":"x","fields":{"a":[{"hunter22":"hunter22"}]}}',
        'Traceback: OperationalError("hunter22")',
        '{"level":"info","message":"quoted \\u0068unter22 in JSON"}',
    ],
)
def test_secrets_are_blanked_wherever_they_stand_in_a_log_line(line: str) -> None:
    blanked = Redactor({"hunter22", ""}).line(read_log_line(line))
    assert "hunter22" not in blanked.model_dump_json()
    assert "***" in blanked.model_dump_json()


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    assert Redactor({"the hunter", "the hunter2"}).text("it is the hunter2") == "it is ***"


def test_without_secrets_a_line_stays_as_it_is() -> None:
    line = LogLine(level="info", message="a.*")
    assert Redactor(()).line(line) == line
