"""The Makefile, in a folder with a space in its name, with what it needs and without."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT, blocks

TARGETS = {"setup", "demo", "test", "check", "bench", "images", "help"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Makefile and what it looks at, as a clone has it before ``make setup``."""
    folder = tmp_path / "my clone"
    (folder / "connectors" / "postgres").mkdir(parents=True)
    (folder / "connectors" / "postgres" / "__main__.py").touch()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Without what a `make test` around us hands down to its children.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**inherited, "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_make_alone_lists_every_target(clone: Path) -> None:
    listed = make(clone).stdout
    assert set(re.findall(r"^ +make ([a-z]+) +[A-Z].+$", listed, re.MULTILINE)) >= TARGETS
    assert make(clone, "help").stdout == listed


def test_a_benchmark_is_run_by_its_name_wherever_it_lies(clone: Path) -> None:
    for name, folder in (("scan", "benchmarks/spark"), ("ingest", "benchmarks")):
        (clone / folder).mkdir(parents=True, exist_ok=True)
        (clone / folder / f"{name}.py").write_text('if __name__ == "__main__":\n    ...\n')
    program(clone / ".venv" / "bin" / "python", 'echo "ran $*"')
    ready = ("--assume-old=.venv/.bench", "--assume-old=.venv/.installed")
    (clone / ".venv" / ".bench").touch()
    assert (
        make(clone, *ready, "bench", "NAME=scan", "ARGS=--rows 1").stdout
        == "== scan\nran -m benchmarks.spark.scan --rows 1\n"
    )
    assert set(re.findall(r"^== (.*)$", make(clone, *ready, "bench").stdout, re.MULTILINE)) == {"scan", "ingest"}
    wrong = make(clone, *ready, "bench", "NAME=scann")
    assert wrong.returncode == 2 and "there is no benchmark scann, but: ingest scan" in wrong.stderr


def test_the_commands_of_the_documents_are_targets(clone: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {
        name for page in pages for name in re.findall(r"(?:^\$ |`)make ([\w-]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"setup", "demo", "test", "check", "images", "bench"} <= named
    for target in named:
        assert make(clone, "--dry-run", target).returncode == 0, target


def test_the_readme_opens_with_the_two_commands() -> None:
    first = next(blocks(ROOT / "README.md", "console"))
    assert re.findall(r"^\$ (\S+ \S+)", first, re.MULTILINE) == ["make demo", "make test"]


def test_an_old_python_is_named(clone: Path) -> None:
    old = program(clone / "bin" / "old python", '[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    ended = make(clone, "setup", PYTHON=old)
    assert ended.returncode != 0
    assert "needs Python 3.11 or later" in ended.stderr and "Python 3.9.2" in ended.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("target", ["demo", "test"])
def test_missing_java_is_said_before_anything_is_installed(clone: Path, target: str) -> None:
    ended = make(clone, target, JAVA_HOME=str(clone / "no java"))
    assert ended.returncode != 0
    assert "needs Java 17 or later" in ended.stderr
    assert not (clone / ".venv").exists()


def test_an_old_java_is_refused(clone: Path) -> None:
    program(clone / "old java" / "bin" / "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    ended = make(clone, "java", JAVA_HOME=str(clone / "old java"))
    assert ended.returncode != 0
    assert "11.0.2" in ended.stderr


def test_setup_installs_anew_only_when_the_pins_changed(clone: Path) -> None:
    """With a Python that makes an environment in which pip only notes that it was called."""
    pip = f'echo "$@" >>"{clone}/installed"'
    venv = f"""case "$2" in venv) mkdir -p .venv/bin; cp "{clone}/bin/pip" .venv/bin/python;; esac"""
    program(clone / "bin" / "pip", pip)
    python = program(clone / "bin" / "python", venv)

    def installed() -> int:
        assert make(clone, "setup", PYTHON=python).returncode == 0
        calls = (clone / "installed").read_text().splitlines()
        return sum("--editable" in call for call in calls)

    assert installed() == 1
    assert installed() == 1
    later = (clone / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(clone / "constraints.txt", (later, later))
    assert installed() == 2


def test_images_are_built_for_every_connector_with_what_the_machine_needs(clone: Path) -> None:
    calls = clone / "calls"
    docker = Path(program(clone / "bin" / "docker", f'printf "%s\\n" "$*" "$PIP_INDEX_URL" >>"{calls}"'))
    ended = make(clone, "images", PATH=f"{docker.parent}:{os.environ['PATH']}", PIP_INDEX_URL="https://x.test/simple")
    assert ended.returncode == 0, ended.stderr
    call, index = calls.read_text().splitlines()
    assert call.startswith("build --tag tidemark/postgres --build-arg CONNECTOR=postgres --build-arg VERSION=")
    assert "--build-arg PIP_INDEX_URL" in call and index == "https://x.test/simple"
    assert "x.test" not in call + ended.stdout, "where packages come from is nobody's business"
