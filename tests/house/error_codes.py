"""The error codes of all rooms."""

from __future__ import annotations

from tidemark.backfill.error_codes import CODES as BACKFILL
from tidemark.captures.error_codes import CODES as CAPTURES
from tidemark.captures.mysql.error_codes import CODES as MYSQL
from tidemark.captures.postgres.error_codes import CODES as POSTGRES
from tidemark.demo.error_codes import CODES as DEMO
from tidemark.protocol.capture_file.error_codes import CODES as CAPTURE_FILE
from tidemark.protocol.changelog.error_codes import CODES as CHANGELOG
from tidemark.protocol.error_codes import CODES as PROTOCOL
from tidemark.protocol.store.error_codes import CODES as STORE
from tidemark.runtime.error_codes import CODES as RUNTIME
from tidemark.spark_sink.error_codes import CODES as SPARK_SINK
from tidemark.testing.error_codes import CODES as TESTING

BY_ROOM = {
    "tidemark.protocol": PROTOCOL,
    "tidemark.protocol.capture_file": CAPTURE_FILE,
    "tidemark.protocol.changelog": CHANGELOG,
    "tidemark.protocol.store": STORE,
    "tidemark.backfill": BACKFILL,
    "tidemark.captures": CAPTURES,
    "tidemark.captures.postgres": POSTGRES,
    "tidemark.captures.mysql": MYSQL,
    "tidemark.runtime": RUNTIME,
    "tidemark.spark_sink": SPARK_SINK,
    "tidemark.testing": TESTING,
    "tidemark.demo": DEMO,
}
"""The codes by the package that registers them when it is imported."""

CODES = {each.code: each for codes in BY_ROOM.values() for each in codes}
