"""The repository's own files, as tests about it see them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What .gitignore leaves out, anywhere and at the top.
_NOT_OURS = {"build", "dist", "out", "spark-warehouse", "metastore_db", "__pycache__"}
_NOT_OURS_HERE = {"demo"}


def repository_files(*suffixes: str) -> Iterator[Path]:
    """Every file that is, or would be, part of a commit, with one of the suffixes if any are given.

    Once: the links of ``tidemark/`` are not followed.
    """
    for folder, folders, names in os.walk(ROOT):
        not_ours = _NOT_OURS | (_NOT_OURS_HERE if folder == str(ROOT) else set())
        folders[:] = [
            name
            for name in folders
            if (not name.startswith(".") or name == ".ci") and not name.endswith(".egg-info") and name not in not_ours
        ]
        for name in names:
            if not suffixes or name.endswith(suffixes):
                yield Path(folder, name)


def blocks(path: Path, language: str) -> Iterator[str]:
    """The fenced code blocks of a Markdown file in one language."""
    inside = False
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if inside and line.strip() == "```":
            yield "\n".join(lines)
            inside, lines = False, []
        elif inside:
            lines.append(line)
        elif line.strip() == f"```{language}":
            inside = True


def table_rows(path: Path) -> Iterator[list[str]]:
    """The cells of every row of the Markdown tables in a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]
