"""``.ci/import_root.py`` gives work from before ``tidemark.protocol`` the new names, and leaves all else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tidemark.testing.missing import lacks

BEFORE = {
    "protocol/__init__.py": '"""Contracts."""\n',
    "protocol/errors.py": "class TidemarkError(Exception):\n    pass\n",
    "runtime/__init__.py": "",
    "runtime/loop.py": (
        '"""Runs a loop. See ``protocol.errors`` for how it ends. ``backfill.readers`` is an option."""\n'
        "\n"
        "import sys\n"
        "\n"
        "import protocol.errors\n"
        "from protocol.errors import TidemarkError\n"
        "\n"
        'COMMAND = [sys.executable, "-m", "runtime", "protocol.md"]\n'
        'PATHS = ["protocol/errors.py", "runtime"]\n'
        "\n"
        "\n"
        "def told(runtime: str, error: TidemarkError) -> str:\n"
        "    if isinstance(error, protocol.errors.TidemarkError):\n"
        '        return f"\\nprotocol.errors: {runtime.errors}"\n'
        '    return "python -m runtime.loop"\n'
    ),
    "tidemark_demo/__init__.py": "",
    "tidemark_demo/shop.py": "from tests.tidemark_demo.rows import ROWS\n",
    "tests/tidemark_demo/__init__.py": "",
    "tests/tidemark_demo/rows.py": "from tidemark_demo import shop\n\nROWS = shop\n",
    "docs/page.md": "`python -m runtime` and `runtime.loop`, in [protocol.md](protocol.md), `tidemark_demo/shop.py`.\n",
    "pyproject.toml": (
        '[project.scripts]\nx = "runtime.loop:told"\n'
        '[tool.setuptools.packages.find]\ninclude = ["protocol*", "runtime*", "other*"]\n'
        '[tool.importlinter]\nroot_packages = ["protocol", "runtime"]\n'
        '[[tool.importlinter.contracts]]\nlayers = ["runtime", "protocol.errors"]\n'
    ),
}

AFTER = {
    "runtime/loop.py": (
        '"""Runs a loop. See ``tidemark.protocol.errors`` for how it ends. ``backfill.readers`` is an option."""\n'
        "\n"
        "import sys\n"
        "\n"
        "import tidemark.protocol.errors\n"
        "from tidemark.protocol.errors import TidemarkError\n"
        "\n"
        'COMMAND = [sys.executable, "-m", "tidemark.runtime", "protocol.md"]\n'
        'PATHS = ["protocol/errors.py", "runtime"]\n'
        "\n"
        "\n"
        "def told(runtime: str, error: TidemarkError) -> str:\n"
        "    if isinstance(error, tidemark.protocol.errors.TidemarkError):\n"
        '        return f"\\ntidemark.protocol.errors: {runtime.errors}"\n'
        '    return "python -m tidemark.runtime.loop"\n'
    ),
    "tidemark/demo/shop.py": "from tests.demo.rows import ROWS\n",
    "tests/demo/rows.py": "from tidemark.demo import shop\n\nROWS = shop\n",
    "docs/page.md": (
        "`python -m tidemark.runtime` and `tidemark.runtime.loop`, in [protocol.md](protocol.md), "
        "`tidemark/demo/shop.py`.\n"
    ),
    "pyproject.toml": (
        '[project.scripts]\nx = "tidemark.runtime.loop:told"\n'
        '[tool.setuptools.packages.find]\ninclude = ["tidemark", "tidemark.*", "other*"]\n'
        '[tool.importlinter]\nroot_packages = ["tidemark"]\n'
        '[[tool.importlinter.contracts]]\nlayers = ["tidemark.runtime", "tidemark.protocol.errors"]\n'
    ),
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if not shutil.which("git"):
        pytest.skip(lacks("there is no git", "apt-get install git"))
    root = tmp_path / "a clone"
    packages = ("backfill", "captures", "connectors", "spark_sink")
    for name, text in {**BEFORE, **{f"{name}/__init__.py": "" for name in packages}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for arguments in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def rewrite(root: Path) -> str:
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "import_root.py", root],
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_names_of_modules_are_rewritten_and_a_second_run_changes_nothing(clone: Path) -> None:
    assert rewrite(clone) == "5 files changed\n"
    assert {name: (clone / name).read_text() for name in AFTER} == AFTER
    assert not (clone / "tidemark_demo").exists()
    assert rewrite(clone) == "0 files changed\n"
