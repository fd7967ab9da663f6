"""What people read has the field's words: no idioms of the house in pages, messages, docstrings and comments."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.files import ROOT, repository_files

IDIOMS = {
    "anew": "again",
    "mend(?:s|ed|ing)?": "fix",
    "(?:go|goes|going|gone) on with": "resume, continue",
    "captured on": "still captured",
    "with more said": "with output that",
}
"""Words that readers stumble over, and what to write instead."""

ELSEWHERE = ("tests", "benchmarks")
"""Their code is read by those who write it, and not looked at."""

_IDIOMS = {re.compile(rf"(?<![\w`-])(?:{words})(?![\w`-])", re.IGNORECASE): plain for words, plain in IDIOMS.items()}
_TEXTS = {
    kind
    for kind, name in tokenize.tok_name.items()
    if name in ("STRING", "COMMENT", "FSTRING_MIDDLE", "TSTRING_MIDDLE")
}
"""Since Python 3.12 the text of an f-string is a token of its own."""

_ATTRIBUTE = re.compile(r"^\s*\w+: ")
"""The name of an attribute or argument in a docstring, which is code."""


def _read_by_people(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Texts with their first lines: a whole page, and of Python code the strings and comments."""
    if path.suffix != ".py":
        yield 1, text
        return
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type in _TEXTS:
            yield token.start[0], token.string


def idioms(path: Path) -> list[str]:
    """Each idiom of a file, with its line and the plain word."""
    text = path.read_text(encoding="utf-8")
    if not any(idiom.search(text) for idiom in _IDIOMS):
        return []  # Nearly all files: they need not be taken apart.
    return [
        f"{path.name}:{number}: {match[0]} (write: {plain})"
        for first, part in _read_by_people(path, text)
        for number, line in enumerate(part.splitlines(), first)
        for idiom, plain in _IDIOMS.items()
        for match in idiom.finditer(_ATTRIBUTE.sub("", line))
    ]


def test_nothing_that_people_read_has_an_idiom_of_the_house() -> None:
    paths = [
        path
        for path in repository_files(".py", ".md", "Makefile")
        if path.suffix != ".py" or path.relative_to(ROOT).parts[0] not in ELSEWHERE
    ]
    assert len(paths) > 200
    assert [found for path in paths for found in idioms(path)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Opens the log anew."""\n', 1),
        ("# Mend the value.\nmend = anew = 1\n", 1),
        ('raise ValueError(f"{x} cannot be gone on with")\n', 1),
        ('"""A record.\n\nAttributes:\n    anew: Read again.\n"""\n', 0),
        ("# Sees ``anew``, amends and recommends it.\n", 0),
    ],
)
def test_idioms_are_found_in_what_people_read_and_not_in_names(text: str, found: int, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert len(idioms(path)) == found
