"""The list of mutants of the real code fits the code, and the tool tells caught from survived.

All of them are tried by ``python -m tests.mutants``, which takes half an hour.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backfill.mutants import MUTANTS as MODEL
from tests.mutants.__main__ import MUTANTS, listed
from tests.mutants.edits import Code, Text, edited
from tests.mutants.model import ROOT, SECONDS, Mutant, NotRun, caught, copied_to, passes
from tidemark.testing.servers.postgres import no_source, sources

HIGH = next(mutant for mutant in MUTANTS if mutant.name == "the high position is taken before the snapshot")
WAITING = "tests/captures/postgres/chunks/test_fences.py"


def _name(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.name}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=_name)
def test_the_code_to_change_is_there_once(mutant: Mutant) -> None:
    compile(mutant.text(), mutant.file, "exec")


def test_the_tests_are_there() -> None:
    tests = sorted({test for mutant in MUTANTS for test in mutant.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


CODE = """
class Counter:
    def add(self, number):
        # Only once.
        if (number > 0 and
                number not in self.seen):
            self.seen.add(number)
            self.sum += number


def other(number):
    return number > 0
"""


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (Code("number > 0 and number not in self.seen", "number > 0"), "if number > 0:"),
        (Code("self.seen.add(number)\nself.sum += number", "self.sum += number"), "if number > 0 and number"),
        (Code("if number > 0 and number not in self.seen:\n  self.seen.add(number)\n  self.sum += number"), "pass"),
    ],
)
def test_an_edit_repeats_neither_the_form_of_code_nor_what_is_around_it(edit: Code, line: str) -> None:
    before, after = ast.unparse(ast.parse(CODE)), edited(CODE, "Counter.add", edit)
    assert line in after
    assert after.partition("def other")[2] == before.partition("def other")[2]
    assert after != before


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("Counter.add", Code("number", "1")),  # several times
        ("Counter.add", Code("number < 0", "True")),
        ("Counter.add", Text("a text", "")),
        ("Counter.take", Code("number > 0", "True")),
    ],
)
def test_code_that_is_not_there_once_is_not_changed(name: str, edit: Code | Text) -> None:
    with pytest.raises(ValueError, match=name.partition(".")[2]):
        edited(CODE, name, edit)


def test_names_are_unique_and_those_of_the_model_are_its() -> None:
    assert len({(mutant.file, mutant.name) for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.of for mutant in MUTANTS} - {""} <= {mutant.name for mutant in MODEL}


def test_the_list_is_in_the_documents() -> None:
    """After a change: ``python -m tests.mutants --list``."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert page.partition("<!-- mutants -->\n")[2].partition("<!-- /mutants -->")[0].strip() == listed()


@pytest.mark.slow
def test_a_mutant_is_caught_and_only_a_mutant(tmp_path: Path) -> None:
    if not sources():
        pytest.skip(no_source())
    copy = copied_to(tmp_path)
    test = f"{WAITING}::test_what_is_committed_while_a_chunk_waits_for_its_table_lies_before_its_fence"
    sample = replace(HIGH, tests=(test,))
    assert caught(copy, sample)
    assert passes(copy, sample.tests)
    # Nothing depends on this.
    assert not caught(copy, replace(sample, edit=Text("Reads a chunk", "Reads a piece")))
    with pytest.raises(NotRun):
        caught(copy, replace(sample, tests=(f"{WAITING}::test_that_is_not_there",)))
