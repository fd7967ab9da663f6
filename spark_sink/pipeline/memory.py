"""What a pipeline remembers beside its tables: which are set aside, and what a run would otherwise look for again.

The file is a hint. Without it the log is listed, and read from the oldest position of a table on; tables that were set
aside are tried again; files that left a table stay for longer. No row depends on it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ValidationError

from protocol.error_codes.model import Policy
from protocol.errors import SparkError, TidemarkError
from spark_sink.spark_failures import error_of


def memory_path(warehouse: Path, log_id: str) -> Path:
    """Where the memory of the tables kept from one log is."""
    return warehouse / "_tidemark" / log_id / "tables.json"


class SetAside(BaseModel):
    """Why a table is not kept up for now.

    Attributes:
        kind: Name of the error's class.
        code: Of the error.
        message: What happened.
        remedy: What to do.
        since: When.
    """

    kind: str
    code: str
    message: str
    remedy: str
    since: datetime

    @classmethod
    def of(cls, error: TidemarkError) -> SetAside:
        return cls(
            kind=type(error).__name__,
            code=error.code,
            message=error.message,
            remedy=error.remedy,
            since=datetime.now(UTC),
        )

    @property
    def error(self) -> TidemarkError:
        return error_of(self.kind, self.code, self.message)

    @property
    def needs_a_person(self) -> bool:
        """Whether trying again is no use until somebody has done something."""
        return self.error.entry.policy is Policy.MANUAL


class TableMemory(BaseModel):
    """What is known of one table.

    Attributes:
        position: That it had.
        complete_to: With that position it lacks nothing below this offset.
        set_aside: Why, if it is.
        removed: Bytes of files that left it since its last vacuum. Runs may be short: none alone removes much.
        vacuumed: When it was vacuumed last, or kept for the first time.
    """

    position: int = 0
    complete_to: int = 0
    set_aside: SetAside | None = None
    removed: int = 0
    vacuumed: datetime | None = None


class Memory(BaseModel):
    """``WAREHOUSE/_tidemark/<log id>/tables.json``.

    Attributes:
        tables: By ``Target.name``.
        commit: Number of a commit of the log up to which none was missing; -1 when none is known.
    """

    tables: dict[str, TableMemory] = {}
    commit: int = -1

    @classmethod
    def load(cls, path: Path) -> Memory:
        """What the file holds; nothing when there is none or it is damaged, since it is a hint."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return cls()
        except OSError as error:
            raise SparkError("TM-SPK-015", f"{path}: {error.strerror or error}") from None

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(self.model_dump_json(indent=1))
            unfinished.replace(path)
        except OSError as error:
            raise SparkError("TM-SPK-015", f"{path}: {error.strerror or error}") from None

    def complete_to(self, name: str, position: int) -> int:
        """Up to where a table at a position lacks nothing."""
        known = self.tables.get(name)
        return max(position, known.complete_to) if known and known.position == position else position
