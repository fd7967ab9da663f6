"""The systemd units, as systemd itself reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tidemark.protocol.errors import ChangeLogError, UsageError
from tidemark.runtime.cli import INTERRUPTED
from tidemark.runtime.progress.failures import status_of
from tidemark.testing.missing import lacks

FOLDER = ROOT / "deploy" / "systemd"
UNITS = ["tidemark@.service", "tidemark-materialize@.service"]

MOST_EXPOSED = 20
"""Of 100, by systemd's own measure; a unit without any hardening has 96."""


def analyze(*arguments: str) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip(lacks("there is no systemd-analyze", "apt-get install systemd"))
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def unit(tmp_path: Path) -> Callable[[str], Path]:
    """A unit as it is installed, of a program that is there."""

    def made(name: str) -> Path:
        text = (FOLDER / name).read_text()
        program = Path(sys.executable).with_name("tidemark")
        path = tmp_path / name
        path.write_text(text.replace("/opt/tidemark/bin/tidemark", str(program)))
        return path

    return made


@pytest.mark.parametrize("name", UNITS)
def test_systemd_has_no_complaint(name: str, unit: Callable[[str], Path]) -> None:
    assert analyze("verify", str(unit(name))) == ""


@pytest.mark.parametrize("name", UNITS)
def test_little_is_exposed(name: str, unit: Callable[[str], Path]) -> None:
    said = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(unit(name)))
    assert re.search(r"Overall exposure level for \S+: 1\.\d OK", said), said


def entries(name: str) -> dict[str, str]:
    """The last value of each entry."""
    lines = (line.partition("=") for line in (FOLDER / name).read_text().splitlines() if line[:1] not in ("#", "["))
    return {key: value for key, _, value in lines if key}


@pytest.mark.parametrize("name", UNITS)
def test_it_is_started_again_where_that_may_help(name: str) -> None:
    given = entries(name)
    waits = {int(status) for status in given["RestartPreventExitStatus"].split()}
    errors = (UsageError("TM-CFG-003", "a secret is away"), ChangeLogError("TM-LOG-013", "the log is away"))
    assert {status_of(error) for error in errors} == waits
    assert status_of(ChangeLogError("TM-LOG-015", "another capture gave a sign of life")) not in waits
    assert given["Restart"] == "on-failure"
    assert given["SuccessExitStatus"] == str(INTERRUPTED)


def test_both_find_the_state_of_a_capture() -> None:
    assert {entries(name)["Environment"] for name in UNITS} == {"XDG_STATE_HOME=/var/lib HOME=/var/lib/tidemark"}
    assert {entries(name)["StateDirectory"] for name in UNITS} == {"tidemark"}
