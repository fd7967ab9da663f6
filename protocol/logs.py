"""Log lines on stderr: one JSON object each, read by any runtime of the protocol.

``{"ts": "…Z", "level": "info", "message": "…", "fields": {…}}``. An error that ends the process is the last line, with
``code``, ``policy``, ``remedy`` and ``documentation`` in ``fields``. Status lines carry ``eventType: connectorStatus``
and their figures in ``fields`` (see ``tidemark.protocol.log_lines.Progress``).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.text.visible import visible_json

STATUS = "connectorStatus"
"""``eventType`` of a status line."""

CONTROL = "control"
"""``eventType`` of the line by which a connector says, once it has opened, that it accepts ``control`` requests."""

LEFT_OUT = "leftOut"
"""``eventType`` of the line by which a connector says why a discovered table is disabled."""

OPTIONAL_SQL = "optionalSql"
"""``eventType`` of the line by which a connector gives statements that improve a capture, and that nothing needs."""

LEVELS = {"warn": "warning", "panic": "fatal", "critical": "fatal"}
"""Other spellings of levels, and ours."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON line; ``extra`` becomes ``fields``, except ``eventType``, which stays on top."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in vars(record).items() if name not in _OWN}
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if event := extra.pop("eventType", None):
            line["eventType"] = event
        if extra:
            line["fields"] = extra
        if record.exc_info and record.exc_info[0] is not None:
            line.setdefault("fields", {})["exception"] = self.formatException(record.exc_info)
        try:
            text = orjson.dumps(line, default=str).decode()
        except TypeError:  # A surrogate: Python has one in place of each byte that is no UTF-8, as in a path.
            text = json.dumps(line, default=str, ensure_ascii=False)
            text = _SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):04x}", text)
        return visible_json(text)


def log_to_stderr(level: str = "info", stream: TextIO | None = None) -> None:
    """Sends this process's log lines to stderr as JSON.

    Args:
        level: As in ``LOG_LEVEL``: debug, info, warn, error. Lines with an ``eventType``, which a runtime reads, are
            written at every level.
        stream: In place of stderr.
    """
    least = logging.getLevelNamesMapping().get(LEVELS.get(level.lower(), level.lower()).upper(), logging.INFO)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(lambda record: record.levelno >= least or hasattr(record, "eventType"))
    logging.basicConfig(level=min(least, logging.INFO), handlers=[handler], force=True)


def log_failure(logger: logging.Logger, error: TidemarkError) -> None:
    """Logs an error as the last line of a process: what happened, the code, whether to retry, and what to do."""
    fields = {
        "code": error.code,
        "policy": error.entry.policy.value,
        "remedy": error.remedy,
        "documentation": error.documentation,
    }
    if error.entry.secret:
        fields["secret"] = "refused"
    logger.error("%s", error.message, extra=fields)


def log_left_out(logger: logging.Logger, name: str, reason: str) -> None:
    """Logs why a table, by its recommended name, is discovered as disabled."""
    logger.info("%s is left out: %s", name, reason, extra={"eventType": LEFT_OUT, "table": name, "reason": reason})


def log_optional_sql(logger: logging.Logger, what: str, statements: str) -> None:
    """Logs statements that nothing needs, with comments in SQL that say what they give and how to remove it.

    Args:
        what: What they make, in a sentence without a full stop.
    """
    logger.info("%s", what, extra={"eventType": OPTIONAL_SQL, "sql": statements})
