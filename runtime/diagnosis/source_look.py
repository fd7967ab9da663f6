"""Whether the source is ready for a capture, and whether its tables are those that the log knows."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.changelog.columns.table_schema import is_untyped, table_schema
from tidemark.protocol.environment import CHECK
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import OPTIONAL_SQL
from tidemark.runtime.diagnosis.change_log import FoundLog
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.preparation.known_tables import put_back
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.preparation.selection import SelectedTable, Selection

_OWN_NAMES = ("localhost", "127.0.0.1", "::1")


class SourceLook:
    """Asks a capture's connector for everything that it needs of the source.

    Args:
        file: The checked capture file.
        found: The capture's log, if there is one.
        findings: Takes what is found.

    Attributes:
        optional: What a connector says of optional statements: a sentence and the statements.
    """

    def __init__(self, file: CaptureFile, found: FoundLog | None, findings: Findings) -> None:
        self._file = file
        self._found = found
        self._findings = findings
        self._errors: list[LogLine] = []
        self.optional: list[tuple[str, str]] = []

    def look(self) -> Selection | None:
        """Collects all findings. Returns the tables that are selected, None where that is not known."""
        entry = self._file.connector
        if entry.image is not None and entry.network != "host" and entry.config.get("host") in _OWN_NAMES:
            self._findings.warn(
                f"connector.config.host is {entry.config['host']}; inside a container that is the container itself",
                remedy="Set connector.network: host, or give a host name that containers can reach.",
            )
        selection: Selection | None = None
        try:
            preparation = self._preparation()
            selection = self._select(preparation)
            # A user who may do nothing sees no table, either: the rest is said, too.
            preparation.validate([] if selection is None else selection.tables)
            if selection is not None:
                self._findings.good("the source is ready for them")
        except TidemarkError as error:
            # A connector may name several reasons; the error is the last of them.
            for line in self._errors:
                self._findings.fail(line.message, line.code, line.remedy, line.policy)
            self._findings.bad(error)
        return selection

    def _preparation(self) -> Preparation:
        running = self._found is not None and self._found.life.exists
        return Preparation(
            self._file,
            self._collect,
            # What a connector says of optional statements is of the level info.
            variables={CHECK: "running" if running else "1", "LOG_LEVEL": "info"},
            log_id="" if self._found is None else self._found.log.header.log_id,
            state=None if self._found is None else self._found.summary.state,
        )

    def _select(self, preparation: Preparation) -> Selection | None:
        spec, discovered = preparation.discover()
        self._findings.good(f"{preparation.connector.name} answered and discovered {len(discovered)} tables")
        try:
            selection = preparation.select(spec, discovered)
        except TidemarkError as error:
            self._findings.bad(error)
            return None
        self._findings.good(f"{len(selection.tables)} tables are selected")
        for warning in selection.warnings:
            self._findings.warn(warning)
        found = self._found
        for name in [] if found is None else put_back(self._file.log_store(), selection.found, found.summary):
            self._findings.warn(
                f"{name} was captured before, and then not: it is emptied and read again with this file",
                remedy="Take it out again if that costs too much now.",
            )
        return selection

    def _collect(self, line: LogLine) -> None:
        if line.level in ("error", "fatal"):
            self._errors.append(line)
        elif line.level == "warning":
            self._findings.warn(line.message, line.code, line.remedy)
        elif line.event_type == OPTIONAL_SQL:
            self._findings.good(line.message)
            self.optional.append((line.message, str(line.fields.get("sql", ""))))


def look_at_drift(selection: Selection, found: FoundLog, findings: Findings) -> None:
    """Compares the columns of the source's tables, as they are now, with those of the newest events in the log."""
    drifted = {table.name: what for table in selection.tables if (what := ", ".join(_drift(table, found)))}
    for name, what in drifted.items():
        if found.life.running:
            findings.good(f"{name}: {what}; the capture follows as it reaches that in the source's log")
        else:
            findings.warn(f"{name} has changed since the capture last ran: {what}", "TM-RUN-023")
    if not drifted:
        findings.good("the source's tables have the columns that the log knows")


def _drift(table: SelectedTable, found: FoundLog) -> Iterator[str]:
    """What of a table is not as in the log."""
    collection = table.binding.collection
    totals = found.summary.totals.get(collection.name)
    if totals is None or not totals.fingerprint:
        return  # No event of it tells.
    before = found.log.schema(totals.fingerprint)
    # Discovery leaves schemas open for Flow, and closes them where the capture is opened.
    closed = {**collection.write_schema, "additionalProperties": False}
    now = table_schema(collection.name, closed, table.key, table.text)
    if is_untyped(before) or is_untyped(now):
        return
    known, present = _types(before), _types(now)
    for name in sorted(present.keys() - known.keys()):
        yield f"column {name} is new"
    for name in sorted(known.keys() - present.keys()):
        yield f"column {name} is gone"
    for name in sorted(known.keys() & present.keys()):
        if not widens(present[name], known[name]):
            yield f"column {name} was {known[name]} and is {present[name]}"


def _types(schema: TableSchema) -> dict[str, str]:
    return {column.in_source: column.type for column in schema.columns}
