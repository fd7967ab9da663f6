"""The tokens of a statement are those that a server reads, whatever comments and quotes it has, and in any mode."""

from __future__ import annotations

import pymysql
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.captures.mysql.statements.tokens import NO_MODE, SqlMode, statement_tokens
from tidemark.testing.servers.mariadb import Database

BLANKS = [" ", "\t", "\n", "\r\n", "\v", "\f", "/* a , ' */", "/**/", "# ' \" `\n", "-- ' \" `\n", "--\n", "--\t,\n"]
ANSI, PLAIN = SqlMode.ANSI_QUOTES, SqlMode.NO_BACKSLASH_ESCAPES
MODES = [NO_MODE, ANSI, PLAIN, ANSI | PLAIN]
WORDS = ["ALTER", "a1", "t$_", "7", "é", "表"]
MARKS = ["(", ")", ",", ".", "=", "-", "*", "@", ";"]
CONTENT = st.text("ab,'\"`\\()*/-# \n\u00e9", max_size=6)

Parts = list[tuple[str, str]]
"""Kind and text of each token."""


def written(kind: str, text: str, mode: SqlMode, quote: str) -> str:
    """A token in SQL."""
    match kind:
        case "ticked":
            quote = quote if quote == '"' and mode & ANSI else "`"
        case "string":
            quote = quote if quote == '"' and not mode & ANSI else "'"
            text = text if mode & PLAIN else text.replace("\\", "\\\\")
        case _:
            return text
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def read(text: str, mode: SqlMode = NO_MODE, *, mariadb: bool = True) -> Parts:
    found = statement_tokens(text.encode(), "d", mode, mariadb=mariadb).rest()
    return [(token.kind, token.text) for token in found]


def as_read(kind: str, text: str, mode: SqlMode) -> tuple[str, str]:
    """Backslashes of a string are left in it."""
    return kind, text if kind != "string" or mode & PLAIN else text.replace("\\", "\\\\")


TOKENS = st.one_of(
    st.tuples(st.just("word"), st.sampled_from(WORDS)),
    st.tuples(st.just("mark"), st.sampled_from(MARKS)),
    st.tuples(st.sampled_from(["ticked", "string"]), CONTENT),
)


@example([(("mark", "*"), "/**/", "'")], NO_MODE, "/*!")
@given(
    st.lists(st.tuples(TOKENS, st.sampled_from(BLANKS), st.sampled_from(["'", '"']))),
    st.sampled_from(MODES),
    st.sampled_from(["", "/*!", "/*!50100", "/*!080011", "/*M!", "/*M!100100"]),
)
def test_what_is_written_is_read(parts: list[tuple[tuple[str, str], str, str]], mode: SqlMode, comment: str) -> None:
    # Where a comment is carried out, a star before a slash ends it.
    apart = {("mark", "*"): " "} if comment else {}
    text = "".join(written(*token, mode, quote) + apart.get(token, "") + blank for token, blank, quote in parts)
    if comment:
        text = f"{comment} {text} */"
    assert read(text, mode) == [as_read(*token, mode) for token, _, _ in parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a --\nb", "a b"),
        ("a --", "a"),
        ("a --\x01 b\nc", "a c"),
        ("a--b", "a - - b"),
        ("2*/*c*/3", "2 * 3"),
        ("a*/b", "a * / b"),
        ("/*!50100 a*/ b */", "a b * /"),
        ("/*!5010 a*/", "5010 a"),
        ("/* a /*! b */ c", "c"),
        ("/*+ hint */ a", "a"),
    ],
)
def test_comments(text: str, expected: str) -> None:
    assert " ".join(token for _, token in read(text)) == expected


def test_white_space_is_that_of_the_server() -> None:
    """What Unicode calls so is part of a name."""
    assert read("a\u00a0b\u2003c d") == [("word", "a\u00a0b\u2003c"), ("word", "d")]


def test_comments_of_mariadb_are_comments_for_mysql() -> None:
    assert read("a /*M! b */", mariadb=False) == [("word", "a")]


@pytest.mark.parametrize("filler", ["x ", "'x' ", "-- x", "/* x"])
def test_the_end_of_a_very_long_statement_is_not_passed_over(filler: str) -> None:
    """The last token has no meaning, so that nothing has it for harmless."""
    text = "a " + filler * (1 << 20)
    assert read(text)[-1] not in [("word", "x"), ("string", "x"), ("word", "a")]


@pytest.mark.parametrize(
    "probe",
    [
        *("1 --\n+ 1", "1 -- + 1\n", "1 --\x01+ 1\n", "3--1", "1 /*!50000 + 1 */", "1 /* + 1 */", "2*/*c*/3"),
        *(r"'a\\', 1", "'a''b'", "1 # + 1\n", '"a`b"'),
    ],
)
def test_a_server_reads_them_alike(binlog_database: Database, probe: str) -> None:
    """What it makes of an expression is what it makes of the tokens that we read in it, written anew."""
    anew = " ".join("'{}'".format(text.replace("'", "''")) if kind == "string" else text for kind, text in read(probe))
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        found = []
        for text in (probe, anew):
            try:
                cursor.execute(f"SELECT {text}")
                found.append(cursor.fetchall())
            except pymysql.Error as error:
                found.append(error.args[:1])
    assert found[0] == found[1]
