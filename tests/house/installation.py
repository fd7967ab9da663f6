"""The wheel and the sdist of this tree, and virtual environments that have the wheel and no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tidemark.testing.missing import lacks

BUILT_FROM = (
    "protocol",
    "backfill",
    "captures",
    "connectors",
    "runtime",
    "spark_sink",
    "testing",
    "tidemark",
    "pyspark_tidemark",
)
FILES = ("pyproject.toml", "README.md", "LICENSE")

_NO_INDEX = ("NewConnectionError", "Temporary failure in name resolution", "ConnectTimeoutError", "ProxyError")
"""What pip says where it reaches no package index."""


@dataclass(frozen=True, slots=True)
class Built:
    sdist: Path
    wheel: Path

    def sdist_names(self) -> set[str]:
        """What stands at the top of the sdist's own folder."""
        with tarfile.open(self.sdist) as archive:
            return {name.split("/")[1] for name in archive.getnames() if "/" in name}

    def wheel_names(self) -> set[str]:
        """What stands at the top of the wheel, and so of a user's site-packages."""
        with zipfile.ZipFile(self.wheel) as archive:
            return {name.split("/")[0] for name in archive.namelist()}


def build(folder: Path) -> Built:
    """The sdist of a copy of this tree, in a folder with a space in its name, and the wheel of the unpacked sdist."""
    copy, dist, tools = folder / "my clone", folder / "dist", folder / "tools"
    for name in BUILT_FROM:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    dist.mkdir()
    pip("install", "--target", tools, "setuptools>=77")
    sdist = _built("sdist", copy, dist, tools)
    subprocess.run(["tar", "-xzf", sdist, "-C", folder], check=True)
    wheel = _built("wheel", folder / sdist.name.removesuffix(".tar.gz"), dist, tools)
    return Built(sdist, wheel)


def _built(kind: str, source: Path, dist: Path, tools: Path) -> Path:
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    done = subprocess.run(
        [sys.executable, "-c", code, dist], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (built,) = dist.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return built


def pip(*arguments: str | Path) -> None:
    """Runs pip at the tested versions; skips the test where there is no package index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    constrained = [*command, "--constraint", ROOT / "constraints.txt"]
    done = subprocess.run(constrained, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stderr for sign in _NO_INDEX):
        pytest.skip(lacks("pip reaches no package index", "PIP_INDEX_URL"))
    assert done.returncode == 0, done.stderr[-4000:]


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.root)}))

    def run(self, *command: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, with nothing of this checkout on its path."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.root / "bin" / command[0], *command[1:]],
            cwd=folder or self.root,
            env={**environment, "PYSPARK_PYTHON": str(self.python), "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )


def install(wheel: Path, root: Path, *, others_from: Sequence[Path] = ()) -> Environment:
    """A new virtual environment with the wheel.

    Args:
        others_from: Folders of packages that have what the wheel needs. Without any, pip installs that too.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    made = Environment(root)
    if others_from:
        # A folder that is named this way gives its packages, and not the checkouts that it is linked to.
        (made.packages / "others.pth").write_text("".join(f"{folder}\n" for folder in others_from))
    pip("--python", made.python, "install", "--no-compile", *(["--no-deps"] if others_from else []), wheel)
    return made


def add_packages_of_the_user(folder: Path) -> None:
    """Packages that have the names which ours had, and none of what ours have."""
    for name in BUILT_FROM[:6]:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('OWNER = "the user"\n')
    (folder / "protocol" / "errors.py").write_text("class ProtocolError(Exception):\n    pass\n")
