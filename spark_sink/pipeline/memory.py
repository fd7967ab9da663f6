"""The memory of a warehouse: which tables are set aside, and what a run would otherwise look for again.

The memory is a hint: no row depends on it. Without it a run lists the log, and tries tables again that were set aside.
Files that left a table stay for longer.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from pydantic import BaseModel, ValidationError

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.error_codes.model import Policy
from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.spark.failures import error_of
from tidemark.spark_sink.tables.store_place import StorePlace

logger = logging.getLogger(__name__)

SEEN_AT_OPENING = frozenset({"TM-LOG-018", "TM-SPK-006", "TM-SPK-007", "TM-SPK-009", "TM-SPK-016", "TM-SPK-017"})
"""Codes of errors that each run looks for when it opens a table: nobody has to ask for another try."""


_FILE = "tables.json"


def memory_place(warehouse: StorePlace, log_id: str) -> StorePlace:
    """The place of the memory of the tables that are kept from one log."""
    return warehouse / f"_tidemark/{log_id}"


class SetAside(BaseModel):
    """The error with which a table is set aside, and since when. ``kind`` is the name of the error's class."""

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
        return error_of(self.kind, self.code, self.message, self.remedy)

    @property
    def needs_a_person(self) -> bool:
        """Whether another try fails until a person acts."""
        return self.error.entry.policy is Policy.MANUAL


class TableMemory(BaseModel):
    """The memory of one table.

    Attributes:
        complete_to: The table lacked no event below this offset. It only says whether to expect work: no event is left
            out because of it.
        set_aside: The error, if the table is set aside.
        removed: Bytes of files that left the table since its last vacuum. Runs may be short: none alone removes much.
        size: Bytes of the files of its version after the last commit; None if that was before this was kept.
        vacuumed: The time of the last vacuum, or the time when this was first kept.
    """

    complete_to: int = 0
    set_aside: SetAside | None = None
    removed: int = 0
    size: int | None = None
    vacuumed: datetime | None = None


class Memory(BaseModel):
    """``WAREHOUSE/_tidemark/<log id>/tables.json``.

    Attributes:
        tables: By ``Target.name``.
        commit: Number of a commit of the log up to which none was missing; -1 when none is known.
        digest: Of that commit: see ``ChangeLog.digest``.
    """

    tables: dict[str, TableMemory] = {}
    commit: int = -1
    digest: str = ""

    @classmethod
    def load(cls, place: StorePlace) -> Memory:
        """Reads the file. A missing, damaged or unreadable file is an empty memory, since it is a hint."""
        try:
            return cls.model_validate_json(place.store.read(_FILE))
        except (FileNotFoundError, ValidationError):
            pass
        except OSError as error:
            logger.warning(
                "%s cannot be read, and is taken for empty: %s", place.store.where(_FILE), error.strerror or error
            )
        return cls()

    def save(self, place: StorePlace) -> None:
        """Writes the file atomically, beside others that save at the same time: the last one stays.

        A file that cannot be written is a warning, since it is a hint.
        """
        try:
            place.store.replace(_FILE, self.model_dump_json(indent=1).encode())
        except OSError as error:
            logger.warning("%s cannot be written: %s", place.store.where(_FILE), error.strerror or error)

    def checked(self, log: ChangeLog) -> Memory:
        """What of it holds of the log as it is now, which may have been restored from a copy, and have grown since."""
        if self.commit >= 0 and self.digest == log.digest(self.commit):
            return self
        return self.model_copy(update={"commit": -1, "digest": ""})
