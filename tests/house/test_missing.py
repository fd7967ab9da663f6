"""What a machine lacks is told at the end of a run: a line for each thing, with what provides it."""

from __future__ import annotations

from types import SimpleNamespace

from tidemark.testing.missing import lacks, summary


def skipped(reason: str) -> SimpleNamespace:
    return SimpleNamespace(longrepr=("tests/test_it.py", 1, f"Skipped: {reason}"))


def test_each_thing_that_is_missing_is_one_line_with_the_most_wanted_first() -> None:
    server = lacks("no MySQL server", ".ci/mysql-server")
    reports = [skipped(lacks("no openssl", "apt-get install openssl")), *map(skipped, [server, "MariaDB's", server])]

    assert list(summary(reports)) == [
        "    2  no MySQL server; to have it: .ci/mysql-server",
        "    1  no openssl; to have it: apt-get install openssl",
        "    1  cases of other products, versions and builds than those here (-rs lists them)",
    ]
    assert list(summary([])) == []
