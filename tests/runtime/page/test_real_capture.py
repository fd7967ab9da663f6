"""A page is open in a browser while a real capture reads its tables, loses one of them, and is killed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.warm_command import warm_command
from tidemark.testing.chromium import Chromium, chromium, no_chromium
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow]


@pytest.fixture
def browser() -> Iterator[Chromium]:
    if (reason := no_chromium()) is not None:
        pytest.skip(reason)
    with chromium() as started:
        started.size(1280, 900)
        yield started


def row(browser: Chromium, table: str) -> str:
    """The row of a table, as it is seen."""
    rows = "[...document.querySelectorAll('#tables-rows tr')]"
    found = f"{rows}.find((one) => one.cells[0].innerText === arguments[0])"
    return str(browser.run(f"return {found}?.innerText ?? ''", table))


def test_a_capture_is_watched_from_its_start_to_its_end(database: Database, browser: Chromium, tmp_path: Path) -> None:
    with database.connect() as admin:
        admin.execute("CREATE TABLE small (id int PRIMARY KEY, secret text)")
        admin.execute("INSERT INTO small SELECT i, 'a value of a row' FROM generate_series(1, 20) i")
        admin.execute("CREATE TABLE large (id int PRIMARY KEY)")
        admin.execute("INSERT INTO large SELECT i FROM generate_series(1, 5000) i")
        admin.execute("ANALYZE small, large")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    slow = {"backfill": {"chunk_rows": 50, "max_rate": "50 rows"}}
    impatient = {"command": warm_command("tests.captures.impatient", "1", "0.2", "tidemark.connectors.postgres")}
    capture = Capture(tmp_path, database, slow, impatient, entries={"metrics": {"listen": f"127.0.0.1:{port}"}})

    def shows(text: str, where: str = "body") -> None:
        def whether() -> bool:
            assert running.running, capture.output.read_text()[-2000:]
            return text in browser.text(where)

        wait_until(whether, 60, f"{where} shows {text}", every=0.1)

    with capture.start() as running:

        def answers() -> bool:
            assert running.running, capture.output.read_text()[-2000:]
            with socket.socket() as asking:
                return asking.connect_ex(("127.0.0.1", port)) == 0

        wait_until(answers, 60, "the page is there")
        browser.open(f"http://127.0.0.1:{port}/")
        shows("running (process ", "#state")
        wait_until(lambda: "done" in row(browser, "public.small"), 60, "the small table is read")
        wait_until(lambda: "scanning" in row(browser, "public.large"), 60, "the large one is being read")
        wait_until(lambda: "0 of about 5,000" in row(browser, "public.large"), 60, "how far it is")
        assert browser.text("#needed") == "nobody is needed" and not browser.sees("#needs")

        with database.connect() as admin:
            admin.execute("DROP TABLE small")
        shows("public.small is set aside", "#needs")
        assert "TM-PG-" in browser.text("#needs") and "What to do: " in browser.text("#needs")
        wait_until(lambda: "set aside" in row(browser, "public.small"), 60, "its row says so, too")
        shows("TM-PG-", "#errors")
        shows("for slot ", "#figures")
        line = "return document.querySelector('.line').getAttribute('d')"
        wait_until(lambda: browser.run(line), 60, "the lag is drawn")
        assert "a value of a row" not in browser.run("return document.documentElement.textContent")

        running.kill()
        wait_until(lambda: "No answer since " in browser.text("#no-answer"), 60, "the page says so")
        assert browser.sees("#no-answer") and "public.small is set aside" in browser.text("#needs")
    assert browser.run("return 'old' in document.body.dataset")
