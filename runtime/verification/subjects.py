"""The tables that a verification is about: their names, and what the log calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.known_tables import known_tables
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.errors import UsageError
from tidemark.protocol.text.nearest_names import near


@dataclass(frozen=True, slots=True)
class Subject:
    """A table to verify.

    Attributes:
        name: As people write it.
        collection: In the log.
        all_rows: All its rows are captured, so that others in the log are too many.
    """

    name: str
    collection: str
    all_rows: bool = True


def collections_of(log: ChangeLog) -> dict[str, str]:
    """What the log calls each table that it knows, by the table's name.

    A schema's name may have a dot, so that the one does not follow from the other.

    Raises:
        ChangeLogError: As ``known_tables`` and ``ChangeLog``.
    """
    found = {name.replace("/", "."): name for name in log.summary().totals if name != QUARANTINE}
    return found | {".".join(table.resource_path): table.recommended_name for table in known_tables(log.store)}


def subjects_of(
    settings: CaptureFile, wanted: Iterable[str], captured: Iterable[str], collections: Mapping[str, str]
) -> list[Subject]:
    """The tables to verify.

    Args:
        wanted: Their names; without any, all that are captured.
        captured: The names that the status has; without any, those of ``collections``.
        collections: See ``collections_of``.

    Raises:
        UsageError: ``TM-CFG-004`` one is not captured.
    """
    known = [name for name in captured if name in collections] or list(collections)
    names = list(dict.fromkeys(wanted)) or known
    if wrong := [name for name in names if name not in known]:
        listed = "; ".join(f"{name} is not captured{near(name, known)}" for name in wrong)
        raise UsageError("TM-CFG-004", listed, remedy="Write table names as 'tidemark status FILE' lists them.")
    return [Subject(name, collections[name], all_rows=_has_all_rows(settings, name)) for name in names]


def _has_all_rows(settings: CaptureFile, name: str) -> bool:
    """Whether rows that the source does not have are too many: by the first entry that names the table."""
    given = settings.tables or []
    entries = [entry for entry in given if entry.table == name]
    entries += [entry for entry in given if entry.is_pattern and fnmatchcase(name, entry.table)]
    options: dict[str, Any] = entries[0].others if entries else {}
    truncate = settings.connector.config.get("truncate")
    return not options.get("where") and "ignore" not in (options.get("truncate"), truncate)
