"""Commands that messages say to run are commands that there are, with the arguments that they take."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from tidemark.runtime.cli import app

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ["protocol", "backfill", "captures", "connectors", "runtime", "spark_sink", "testing", "tidemark"]

COMMAND = re.compile(r"tidemark ([a-z]+ (?:FILE|LOG)(?: (?:X|[A-Z]{2,}|--?[a-z][a-z-]*))*)|[`']tidemark ([a-z]+)[`']")
"""With arguments, or by itself between quotes."""


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every string, that of an f-string with X in the place of values."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def _said() -> list[str]:
    sources = [path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    # Each process of a run looks for them, and to take a source apart takes long.
    texts = [text for source in sources if re.search(r"tidemark\s", source) for text in _texts(ast.parse(source))]
    found = {match[1] or match[2] for text in texts for match in COMMAND.finditer(" ".join(text.split()))}
    return sorted(found)


def test_there_are_some() -> None:
    assert {"check", "backfill FILE --table TABLE", "materialize FILE --rebuild TABLE"} <= set(_said())


@pytest.mark.parametrize("said", _said())
def test_a_command_that_a_message_names(said: str) -> None:
    name, *arguments = shlex.split(said)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    command = group.commands[name]
    if arguments:
        command.make_context(name, arguments)
