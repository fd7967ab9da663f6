"""What Spark and this package need on the driver's machine: Java, and packages in the right versions."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidemark.protocol.errors import SparkError

_JAVA_AT_LEAST = 17
_OLDEST, _BELOW = (4, 0), (4, 4)
_DELTALAKE_AT_LEAST = (1, 6, 6)


def check_java() -> None:
    """Makes sure that the Java which Spark will start is new enough.

    Raises:
        SparkError: ``TM-SPK-001`` naming what was found.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = _stated_release(java) or _told_version(java)
    match = re.search(r'version(?: |=)"(?:1\.)?(\d+)', found, re.IGNORECASE)
    if not match or int(match[1]) < _JAVA_AT_LEAST:
        first = found.splitlines()[0] if found else "no version"
        raise SparkError("TM-SPK-001", f"{java} is too old: {first}")


def _stated_release(java: str) -> str | None:
    """What the file beside a Java says of its version: to start a JVM for it takes as long as all else before Spark."""
    program = shutil.which(java)
    if program is None:
        return None
    try:
        lines = (Path(program).resolve().parent.parent / "release").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line for line in lines if line.startswith("JAVA_VERSION=")), None)


def _told_version(java: str) -> str:
    """What a Java says of itself."""
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        raise SparkError("TM-SPK-001", f"{java} cannot be run") from None


def check_packages() -> None:
    """Makes sure that PySpark and deltalake are installed, in supported versions.

    Raises:
        SparkError: ``TM-SPK-002`` naming the package and what was found.
    """
    pyspark = _installed("pyspark")
    if not _OLDEST <= _numbers(pyspark) < _BELOW:
        raise SparkError("TM-SPK-002", f"pyspark {pyspark} is installed; this version supports 4.0 to 4.3")
    deltalake = _installed("deltalake")
    if _numbers(deltalake) < _DELTALAKE_AT_LEAST:
        raise SparkError("TM-SPK-002", f"deltalake {deltalake} is installed; this version needs 1.6.6 or later")


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        pass
    # Spark as an archive has its PySpark as a plain directory, of which no package manager knows.
    try:
        return str(importlib.import_module(package).__version__)
    except ModuleNotFoundError:
        raise SparkError("TM-SPK-002", f"{package} is not installed: pip install 'tidemark[spark]'") from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
