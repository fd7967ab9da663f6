"""Starts drivers as people do: with this Python, and with spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidemark.testing.spark_cluster import SPARK_HOME, SparkCluster

PROBE = Path(__file__).parent / "session_probe.py"
DEADLINE = 500


def submit(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """``spark-submit ARGUMENTS``, whose driver and executors have this Python unless the environment says otherwise."""
    return subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", *arguments],
        env={**SparkCluster.environment(), **(environment or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def python(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS``."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What a probe answered, step by step."""
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def steps(*each: Mapping[str, object]) -> str:
    """The probe's argument."""
    return json.dumps(each)


def zip_of_packages(path: Path, packages: Sequence[str] = ("protocol", "spark_sink")) -> Path:
    """This project as ``--py-files`` takes it."""
    root = Path(__file__).resolve().parents[2]
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(root / "tidemark" / "__init__.py", "tidemark/__init__.py")
        for package in packages:
            for file in (root / package).rglob("*.py"):
                archive.write(file, Path("tidemark") / file.relative_to(root))
    return path
