"""A mutant of the real code, and what comes of the tests that are to catch it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.house.installation import BUILT_FROM
from tests.mutants.edits import Code, Text, edited

ROOT = Path(__file__).parents[2]

COPIED = (*BUILT_FROM, "tests")
"""What the tests of captures import; ``spark_sink`` for the settings that all tests share."""

SECONDS = 300
"""The tests of one mutant take no longer."""

_ALL_PASSED, _SOME_FAILED = 0, 1
"""Exit statuses of pytest. Others say that it could not run the tests."""


@dataclass(frozen=True)
class Mutant:
    """A rule of the real code switched off, in a function.

    Attributes:
        name: What the mutant does wrong.
        place: ``FILE::FUNCTION``, from the root of the repository; a method's with its class before a dot.
        edit: What stands there exactly once, and what stands in its place.
        tests: As pytest takes them. At least one of them fails.
        of: The mutant of ``tests/backfill/mutants.py`` to which it belongs; empty where the model takes the rule for
            granted, as a promise of its database.
    """

    name: str
    place: str
    edit: Code | Text
    tests: tuple[str, ...]
    of: str = ""

    @property
    def file(self) -> str:
        return self.place.partition("::")[0]

    def text(self) -> str:
        """The mutated file. Raises ValueError where the code to change is not there exactly once."""
        file, _, function = self.place.partition("::")
        return edited((ROOT / file).read_text(), function, self.edit)


class NotRun(Exception):
    """The tests could not be run, or fail without any mutant."""


def copied_to(folder: Path) -> Path:
    """A copy of the code and its tests, in which a mutant can be put."""
    copy = folder / "copy"
    copy.mkdir()
    for name in COPIED:
        # The links of tidemark/ stay links: a mutant is put where they lead.
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def passes(copy: Path, tests: tuple[str, ...]) -> bool:
    """Whether all of these tests pass in a copy. Raises NotRun where that cannot be told."""
    # The copy stands first on the path of pytest, and of the connectors that it starts in the same folder.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode == _SOME_FAILED:
        return False
    if done.returncode == _ALL_PASSED and " passed" in done.stdout:
        return True
    raise NotRun(f"{' '.join(tests)}: pytest ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-1000:]}")


def caught(copy: Path, mutant: Mutant) -> bool:
    """Whether a test fails with the mutant. The copy is as before afterwards. Raises NotRun."""
    file = copy / mutant.file
    original = file.read_text()
    file.write_text(mutant.text())
    try:
        return not passes(copy, mutant.tests)
    finally:
        file.write_text(original)
