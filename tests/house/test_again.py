"""What failed in a run of all tests is run once more, whatever of it failed, and fails the run if it fails again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT

TESTS = """
import pytest
from pathlib import Path

@pytest.fixture
def torn_down():
    yield
    torn = Path("torn")
    if not torn.exists() or Path("broken").exists():
        torn.touch()
        raise OSError("the server is still there")

@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("place", ["a@b", "c d"])
def test_grouped(place, request):
    if place == "a@b":
        request.getfixturevalue("torn_down")

def test_other():
    pass
"""
"""The teardown of one test fails, the first time only or always."""


@pytest.fixture
def failed_run(tmp_path: Path) -> Path:
    """A folder in which the teardown of a test of a group failed, and nothing else."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = ["pytest", "-p", "no:randomly", "--numprocesses", "1", "--dist", "loadgroup"]
    ended = run(tmp_path, *command)
    assert (ended.returncode, "3 passed, 1 error" in ended.stdout) == (1, True), ended.stdout
    (tmp_path / ".pytest_cache" / "exit-status").write_text("1\n")
    return tmp_path


def run(folder: Path, *module: str) -> subprocess.CompletedProcess[str]:
    # Without what a pytest around us hands down to its children.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", *module],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_whose_teardown_failed_is_run_again(failed_run: Path) -> None:
    ended = run(failed_run, "tests.again")
    assert ended.returncode == 0, ended.stdout
    assert "failed beside other tests:\n  test_it.py::test_grouped[a@b]\n" in ended.stdout
    assert "1 passed" in ended.stdout


def test_a_teardown_that_fails_again_fails_the_run(failed_run: Path) -> None:
    (failed_run / "broken").touch()
    ended = run(failed_run, "tests.again")
    assert (ended.returncode, "1 passed, 1 error" in ended.stdout) == (1, True), ended.stdout


def test_what_is_no_failure_of_a_few_tests_is_not_run_again(failed_run: Path) -> None:
    cache = failed_run / ".pytest_cache"
    (cache / "exit-status").write_text("2\n")
    assert run(failed_run, "tests.again").returncode == 1
    (cache / "exit-status").write_text("1\n")
    (cache / "v" / "cache" / "lastfailed").write_text('{"a": true, "b": true, "c": true, "d": true}')
    assert run(failed_run, "tests.again").returncode == 1
    (cache / "v" / "cache" / "lastfailed").write_text('{"test_it.py::test_gone": true}')
    assert run(failed_run, "tests.again").returncode == 4
