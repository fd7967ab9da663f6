"""The exceptions of tidemark.

::

    TidemarkError               code, what happened and where, what to do
    ├── UsageError              the command or capture file is wrong            exit 2
    ├── ProtocolError           a message is malformed or out of order          exit 1
    ├── SourceError             the database refuses, or its log is lost        exit 1
    ├── ConnectorError          a connector process failed or broke its word    exit 1
    ├── ChangeLogError          the change log is damaged, foreign or taken     exit 1
    └── SparkError              Spark or a target table is not as it must be    exit 1

Every error carries the entry of its code (``tidemark.protocol.error_codes``), which says whether trying again can help
and what a person should do. A message names what happened and where; it never holds a row's values or a password.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidemark.protocol.error_codes import REGISTERED, ErrorCode


class TidemarkError(Exception):
    """An error with a stable code.

    Args:
        code: A registered code, such as ``TM-PG-004``, or the entry of one that is not ours.
        message: What happened and where, one sentence, without values of rows and without passwords.
        remedy: The exact statement or setting that fixes it; by default the code's general remedy.
    """

    exit_status = 1

    def __init__(self, code: str | ErrorCode, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.entry = REGISTERED[code] if isinstance(code, str) else code
        self.message = message
        self.remedy = remedy or self.entry.remedy

    @property
    def code(self) -> str:
        """Stable, and explained in docs/errors.md."""
        return self.entry.code

    @property
    def documentation(self) -> str:
        """Where the code is explained: in docs/errors.md, if it is ours."""
        return self.entry.documentation

    @property
    def explanation(self) -> str:
        """What a command says on stderr: what happened, what to do, and where to read more. Lines, each ended."""
        see = f"  see {self.documentation}\n" if self.documentation else ""
        return f"error {self.code}: {self.message}\n  what to do: {self.remedy}\n{see}"

    def as_json(self) -> dict[str, str]:
        """Code, message and remedy."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.entry, self.message, self.remedy))


def codes_of(errors: Iterable[TidemarkError]) -> str:
    """The codes of errors that are told one by one, each with its count where there are several."""
    counts = Counter(error.code for error in errors)
    return ", ".join(f"{count} × {code}" if count > 1 else code for code, count in counts.items())


def _rebuild(kind: type[TidemarkError], entry: ErrorCode, message: str, remedy: str) -> TidemarkError:
    return kind(entry, message, remedy=remedy)


class UsageError(TidemarkError):
    """The command line or the capture file is wrong."""

    exit_status = 2


class ProtocolError(TidemarkError):
    """A protocol message is malformed, unknown, too long or out of order."""


class SourceError(TidemarkError):
    """The database refuses something, lacks something, or its log no longer holds our position."""


class ConnectorError(TidemarkError):
    """A connector process failed, or said something the protocol does not allow."""


class ChangeLogError(TidemarkError):
    """The change log is damaged, belongs to another capture, or was taken by another writer."""


class SparkError(TidemarkError):
    """Spark, its version, or a target table is not as it must be."""
