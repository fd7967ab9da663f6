"""Reads single commits of a Delta table's log, for what delta-rs does not tell: who made them, and what they did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from protocol.errors import SparkError


@dataclass(frozen=True)
class LoggedCommit:
    """One version of a table, as its log has it.

    Attributes:
        version: Of the table.
        info: Its ``commitInfo``, which every engine writes in its own way; empty when there is none.
    """

    version: int
    info: dict[str, Any]
    _path: Path = field(repr=False)

    @property
    def operation(self) -> str:
        """What the engine says it did, such as ``OPTIMIZE``."""
        return str(self.info.get("operation", "unknown"))

    @cached_property
    def files(self) -> tuple[frozenset[str], frozenset[str]]:
        """Paths of the files that it added and removed."""
        added, removed = (
            frozenset(action[kind]["path"] for action in self._actions if kind in action) for kind in ("add", "remove")
        )
        return added, removed

    @cached_property
    def changes_data(self) -> bool:
        """Whether rows may be others than before. Compaction moves rows and changes none."""
        files = [action.get("add") or action.get("remove") for action in self._actions]
        return any(file["dataChange"] for file in files if file)

    @cached_property
    def _actions(self) -> list[dict[str, Any]]:
        return list(_lines(self._path))


class DeltaLog:
    """The ``_delta_log`` of a table in a local directory.

    Raises:
        SparkError: ``TM-SPK-015`` from every method, when the log cannot be read.
    """

    def __init__(self, table: Path) -> None:
        self._folder = table / "_delta_log"

    def commit(self, version: int) -> LoggedCommit | None:
        """One commit; None when the log was cleaned and does not have it any more."""
        path = self._folder / f"{version:020d}.json"
        try:
            # The info comes first, and a commit of many files is long.
            first = next(_lines(path), {})
            info = first.get("commitInfo")
            if info is None:
                info = next((action["commitInfo"] for action in _lines(path) if "commitInfo" in action), {})
        except FileNotFoundError:
            return None
        return LoggedCommit(version, info, path)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield orjson.loads(line)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SparkError("TM-SPK-015", f"{path}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise SparkError("TM-SPK-015", f"{path}: not JSON: {error}") from error
