"""With the event trigger on rewrites: what follows is what follows without it, live and stopped, and rows are right."""

from __future__ import annotations

from tests.captures.postgres.tables_that_change.test_kept_values import KEEPING, UNSURE, with_tablespaces
from tests.captures.postgres.tables_that_change.verdicts import PARTS, Change, outcomes
from tests.captures.source_tables import prepare
from tidemark.captures.postgres.server.rewrite_trigger import SCRIPT
from tidemark.testing.servers.postgres import Database

_T = "ALTER TABLE {t} "
_OFF = "ALTER EVENT TRIGGER tidemark_note_rewrite DISABLE"
_ON = "ALTER EVENT TRIGGER tidemark_note_rewrite ENABLE ALWAYS"

READ = {
    "values for a new column": Change((_T + "ADD c{n} float8 DEFAULT random()",)),
    "while it is disabled": Change((_OFF, _T + "ALTER n TYPE int USING n + 1", _ON)),
    "disabled for one of two": Change(
        (_T + "ALTER n TYPE int USING n + 1", _OFF, _T + "ALTER b TYPE text USING b || 'x'", _ON)
    ),
    "twice": Change((_T + "ALTER n TYPE int USING n + 1", _T + "ALTER n TYPE int USING n + 1")),
    "rolled back, then done": Change(
        ("BEGIN; " + _T + "ALTER b TYPE text USING 'x'; ROLLBACK", _T + "ALTER n TYPE int USING n + 1")
    ),
    "in a subtransaction, with rows": Change(
        (
            "BEGIN; UPDATE {t} SET b = 'before'; SAVEPOINT s; " + _T + "ALTER b TYPE text USING b || 'x'; RELEASE s;"
            " UPDATE {t} SET b = b || 'y' WHERE id % 2 = 0; COMMIT",
        )
    ),
    "rows in between": Change(
        (
            _T + "ALTER b TYPE text USING b || 'x'",
            "UPDATE {t} SET b = b || 'y' WHERE id % 2 = 0",
            "DELETE FROM {t} WHERE id = 3 + {n}",
            _T + "ALTER n TYPE bigint",
            "UPDATE {t} SET n = -n WHERE id % 3 = 0",
            _T + "ALTER n TYPE int USING n + 7",
        )
    ),
}
EMPTIED = {
    "partitions": Change((_T + "ALTER b TYPE text USING b || 'x'", "DELETE FROM {t} WHERE id = 3 + {n}"), PARTS),
    "a partition is truncated, too": Change(("TRUNCATE {t}_low", _T + "ALTER b TYPE text USING b || 'x'"), PARTS),
    "a key": Change((_T + "ALTER id TYPE int USING id + 1000",)),
}


def test_what_keeps_all_values_keeps_them(any_database: Database) -> None:
    """No row is read again, also where the trigger tells of a rewrite."""
    prepare(any_database, SCRIPT)
    listed = {f"{name} {place}": each for name, changes in KEEPING.items() for place, each in enumerate(changes)}
    if any_database.version >= 15:
        for number in range(2):
            prepare(any_database, f"CREATE ACCESS METHOD heap{number} TYPE TABLE HANDLER heap_tableam_handler")
        listed["another access method"] = Change((_T + "SET ACCESS METHOD heap{n}",))
    with with_tablespaces(any_database, listed) as with_space:
        live, stopped = outcomes(any_database, with_space)
    assert {name: (live[name].what, stopped[name].what) for name in listed} == dict.fromkeys(listed, ("kept", "kept"))


def test_what_has_rows_read_has_them_read(any_database: Database) -> None:
    prepare(any_database, SCRIPT)
    expected = dict.fromkeys({**UNSURE, **READ}, ("read", "read")) | dict.fromkeys(EMPTIED, ("emptied", "emptied"))
    live, stopped = outcomes(any_database, {**UNSURE, **READ, **EMPTIED})
    assert {name: (live[name].what, stopped[name].what) for name in expected} == expected
