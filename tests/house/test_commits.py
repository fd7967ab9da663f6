"""What holds for commits: see CONTRIBUTING.md."""

from __future__ import annotations

import subprocess

import pytest

from tests.house.files import ROOT
from tidemark.testing.missing import lacks

LONGEST_SUBJECT = 72
LOOKED_AT = 50
"""Commits, where there is no release to begin from."""


def _git(*arguments: str) -> str | None:
    """What git says; None where there is no git, or it refuses."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None


def too_long(subjects: list[str]) -> list[str]:
    return [subject for subject in subjects if len(subject) > LONGEST_SUBJECT]


def test_subjects_of_commits_are_short() -> None:
    """Of those since the last release, else of the last fifty."""
    release = _git("describe", "--tags", "--abbrev=0")
    told = _git("log", "--format=%s", f"{release}..HEAD" if release else f"--max-count={LOOKED_AT}")
    if told is None:
        pytest.skip(lacks("there is no git history", "git clone"))
    assert too_long(told.splitlines()) == [], f"subjects of more than {LONGEST_SUBJECT} characters"


def test_a_subject_of_73_characters_is_too_long() -> None:
    assert too_long(["x" * 72, "y" * 73]) == ["y" * 73]
