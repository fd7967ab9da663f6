"""Databases in other encodings than UTF-8, and texts with bytes that stand for no character there."""

from __future__ import annotations

import random
from hashlib import sha256

import psycopg
import pytest

from tests.captures.impatient import impatient
from tests.captures.postgres.encoded_databases import InEncoding
from tests.captures.session import Json, Session, bindings, session, unary
from tests.captures.source_tables import FILL, USERS, endpoint, prepare, table_rows
from tidemark.protocol.environment import RUNTIME
from tidemark.testing.servers.postgres import Database

UNSAYABLE = "'x' || chr(129)"
"""Byte 0x81, which WIN1252 has no character for, and the server takes."""

BOTH = bindings("public.users", "public.notes")
NOTES = "CREATE TABLE notes (id int PRIMARY KEY, text text)"


@pytest.fixture
def western(in_encoding: InEncoding) -> Database:
    return in_encoding("WIN1252")


def aside(capture: Session, table: str = "notes") -> Json | None:
    found = [state for key, state in capture.state.get("bindings", {}).items() if key.endswith(f"%2F{table}")]
    reason: Json | None = found[0].get("aside") if found else None
    return reason


def with_policy(policy: str) -> list[Json]:
    bound = bindings("public.users", "public.notes")
    bound[1]["resourceConfig"]["on_bad_value"] = policy
    return bound


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_text_that_is_none_sets_its_table_aside(western: Database, when: str) -> None:
    prepare(western, USERS, FILL, NOTES, "INSERT INTO notes VALUES (1, 'é')")
    unsayable = f"INSERT INTO notes VALUES (2, {UNSAYABLE})"
    if when == "before":
        prepare(western, unsayable)
    with session(endpoint(western), BOTH) as capture:
        if when == "meanwhile":
            capture.until(Session.done)
            assert capture.rows(1) == table_rows(western, "SELECT id, text FROM notes")
            prepare(western, unsayable)
        capture.until(aside)
        prepare(western, "UPDATE users SET name = 'followed' WHERE id = 1")
        capture.until(lambda c: c.rows(0) == table_rows(western))
    assert not any("connect" in line["message"] for line in capture.logs), "the stream broke"
    reason = aside(capture)
    assert reason is not None and reason["code"] == "TM-CAP-020"
    assert "column text: " in reason["text"] and "key 2)" in reason["text"]
    with session(endpoint(western), with_policy("null"), capture.state) as again:
        again.documents += capture.documents
        again.until(lambda c: aside(c) is None and c.done())
        prepare(western, f"INSERT INTO notes VALUES (3, {UNSAYABLE})", "INSERT INTO notes VALUES (4, 'ß€')")
        again.until(lambda c: (4,) in c.rows(1))
        assert {at: row["text"] for (at,), row in again.rows(1).items()} == {1: "é", 2: None, 3: None, 4: "ß€"}


def test_such_a_text_is_kept_apart(western: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNTIME, "test")
    prepare(western, USERS, NOTES, f"INSERT INTO notes VALUES (1, {UNSAYABLE})")
    with session(endpoint(western), with_policy("quarantine")) as capture:
        capture.until(lambda c: (1,) in c.rows(1))
        prepare(western, f"INSERT INTO notes VALUES (2, 'é' || {UNSAYABLE} || 'ß')")
        capture.until(lambda c: (2,) in c.rows(1))
    marks = {document["id"]: document["_meta"]["bad"] for index, document in capture.documents if index == 1}
    assert marks == {1: {"text": "x\\x81"}, 2: {"text": "éx\\x81ß"}}


@pytest.mark.parametrize("policy", ["stop", "quarantine"])
def test_a_key_that_is_none(western: Database, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are asked for by their keys, so no policy lets such a key through."""
    monkeypatch.setenv(RUNTIME, "test")
    prepare(western, USERS, "CREATE TABLE notes (name text PRIMARY KEY, n int)")
    prepare(western, "INSERT INTO notes SELECT 'é' || i, i FROM generate_series(1, 9) i")
    config = endpoint(western, backfill={"chunk_rows": 2})
    with session(config, with_policy(policy)) as capture:
        capture.until(Session.done)
        prepare(western, "UPDATE notes SET n = -n WHERE name = 'é3'")
        capture.until(lambda c: c.rows(1, ["name"]) == table_rows(western, "SELECT name, n FROM notes"))
        prepare(western, f"INSERT INTO notes VALUES ({UNSAYABLE}, 10)")
        capture.until(aside)
        prepare(western, "INSERT INTO users VALUES (1, 'followed')")
        capture.until(lambda c: c.rows(0) == table_rows(western))
    with session({**config, "slot": f"{western.name}_2"[-60:]}, with_policy(policy)) as anew:
        anew.until(aside)
        anew.until(lambda c: c.rows(0) == table_rows(western))


SINGLE = ["WIN1252", "WIN874", "ISO_8859_6", "LATIN3", "KOI8R", "WIN1255"]
SEVERAL = ["EUC_JP", "EUC_JIS_2004", "EUC_KR", "EUC_CN", "EUC_TW"]


def characters(encoding: str) -> list[str]:
    """Hexadecimal digits: each byte, or some of the characters, many of them none."""
    if encoding in SINGLE:
        return [f"{byte:02x}" for byte in range(128, 256)]
    some = random.Random(encoding)
    heads = ["", "8ea1", "8ea2"] if encoding == "EUC_TW" else ["", "8f"]
    kana = [f"8e{byte:02x}" for byte in range(0xA1, 0xE0, 5)]
    return kana + [f"{head}{some.randrange(0xA1A1, 0xFEFF):04x}" for head in heads for _ in range(200)]


FILL_WITH = """
DO $$ DECLARE code text; BEGIN
    FOREACH code IN ARRAY string_to_array('{codes}', ',') LOOP
        BEGIN
            INSERT INTO notes (text) SELECT 'a' || convert_from(decode(code, 'hex'), getdatabaseencoding()) || 'z';
        EXCEPTION WHEN character_not_in_repertoire THEN NULL;  -- not even stored
        END;
    END LOOP;
END $$
"""


def said_by_the_server(database: Database) -> dict[int, str | None]:
    """Each text as the server's own conversion has it, None where it has none."""
    found: dict[int, str | None] = {}
    with database.connect() as connection:
        for (at,) in connection.execute("SELECT id FROM notes").fetchall():
            try:
                row = connection.execute("SELECT text FROM notes WHERE id = %s", [at]).fetchone()
            except psycopg.errors.UntranslatableCharacter:
                row = (None,)
            assert row is not None
            found[at] = row[0]
    return found


@pytest.mark.drawn(6)
@pytest.mark.parametrize("encoding", SINGLE + SEVERAL)
def test_chunk_and_log_have_what_the_server_says(in_encoding: InEncoding, encoding: str) -> None:
    database = in_encoding(encoding)
    fill = FILL_WITH.format(codes=",".join(characters(encoding)))
    prepare(database, USERS, "CREATE TABLE notes (id serial PRIMARY KEY, text text)", fill)
    with session(endpoint(database, backfill={"chunk_rows": 50}), with_policy("null")) as capture:
        capture.until(Session.done)
        prepare(database, fill)
        expected = said_by_the_server(database)
        capture.until(lambda c: len(c.rows(1)) == len(expected))
        assert {at: row["text"] for (at,), row in capture.rows(1).items()} == expected
    texts = [text for text in expected.values() if text is not None]
    assert texts and all(text[0] + text[-1] == "az" for text in texts)
    if encoding in SINGLE and encoding != "KOI8R":
        assert None in expected.values()


def test_an_encoding_that_the_server_cannot_convert_is_named(in_encoding: InEncoding, database: Database) -> None:
    if database.version >= 19:
        pytest.skip("until version 18 only")
    config = {**endpoint(database), "database": in_encoding("MULE_INTERNAL").name}
    status, _, logs = unary({"discover": {"config": config}})
    assert (status, logs[-1]["fields"]["code"]) == (1, "TM-PG-026"), logs
    assert "MULE_INTERNAL" in logs[-1]["message"] and "UTF8" in logs[-1]["fields"]["remedy"]


def test_names_and_types(western: Database) -> None:
    prepare(
        western,
        USERS,
        "CREATE TYPE größe AS ENUM ('klein', 'groß')",
        "CREATE TYPE maß AS (länge int, name text)",
        'CREATE TABLE "straßen é" ("schlüssel ü" text PRIMARY KEY, g größe, m maß, a text[], j jsonb, h text)',
        """INSERT INTO "straßen é" VALUES ('ä', 'groß', '(1,"ö, ü")', '{"ö","{é}"}', '{"ß": ["€", 1]}', 'geheim ß')""",
    )
    bound = bindings("public.users", "public.straßen é")
    bound[1]["resourceConfig"]["hash"] = ["h"]
    config = endpoint(western, publication='veröffentlicht "é"', hash_salt="salt and pepper")
    with session(config, bound) as capture:
        capture.until(Session.done)
        prepare(
            western,
            """INSERT INTO "straßen é" SELECT 'ö', g, m, a, j, h FROM "straßen é" """,
            """UPDATE "straßen é" SET "schlüssel ü" = 'ÿ' WHERE "schlüssel ü" = 'ä'""",
        )
        capture.until(lambda c: c.rows(1, ["schlüssel ü"]).keys() == {("ö",), ("ÿ",)})
        for row in capture.rows(1, ["schlüssel ü"]).values():
            assert row["g"] == "groß" and row["m"] == {"länge": 1, "name": "ö, ü"}
            assert row["a"] == ["ö", "{é}"] and row["j"] == {"ß": ["€", 1]}
            assert row["h"] == sha256("salt and peppergeheim ß".encode()).hexdigest()
        prepare(western, """INSERT INTO "straßen é" VALUES ('z', 'klein', ROW(2, 'x' || chr(129)))""")
        capture.until(lambda c: "TM-CAP-020" in str(c.state))
        prepare(western, "INSERT INTO users VALUES (1, 'followed')")
        capture.until(lambda c: c.rows(0) == table_rows(western))


def test_a_constant_that_fills_older_rows(western: Database) -> None:
    """One that is no text is not told: the rows are read again, which sets the table aside."""
    prepare(western, USERS, FILL, NOTES, "INSERT INTO notes VALUES (1, 'é')")
    with session(endpoint(western), BOTH, command=impatient("tidemark.connectors.postgres")) as capture:
        capture.until(Session.done)
        prepare(western, "ALTER TABLE users ADD filled text DEFAULT 'é€'", "ALTER TABLE users RENAME name TO named")
        capture.until(lambda c: all(row.get("filled") == "é€" for row in c.rows(0).values()))
        assert len(capture.rows(0)) == 1000 and all("named" in row for row in capture.rows(0).values())
        assert len(capture.documents) == 1001
        prepare(
            western,
            f"DO $$ BEGIN EXECUTE 'ALTER TABLE notes ADD bad text DEFAULT ' || quote_literal({UNSAYABLE}); END $$",
        )
        capture.until(aside)
