"""What is said of the Java that Spark would start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.requirements import check_java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program where ``JAVA_HOME`` says. It cannot be run."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return program


def tells(java: Path, version: str) -> None:
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")


def test_the_file_beside_a_java_says_its_version_and_nothing_is_started(java: Path) -> None:
    release = java.parent.parent / "release"
    release.write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n')
    check_java()
    release.write_text('JAVA_VERSION="1.8.0_402"\n')
    with pytest.raises(SparkError, match=r'TM-SPK-001.*java is too old: JAVA_VERSION="1\.8\.0_402"'):
        check_java()


def test_a_java_without_that_file_is_asked(java: Path) -> None:
    tells(java, 'openjdk version "21.0.1" 2023-10-17')
    check_java()
    tells(java, 'java version "1.8.0_402"')
    with pytest.raises(SparkError, match=r'TM-SPK-001.*java is too old: java version "1\.8\.0_402"'):
        check_java()


def test_a_java_that_does_not_run(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SparkError, match=r"TM-SPK-001.*bin/java cannot be run"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(java / "nowhere"))
    with pytest.raises(SparkError, match=r"TM-SPK-001.*java cannot be run"):
        check_java()
