"""The page in a real browser: what it shows, and that everybody can use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.page.seen import HEADINGS, LOW_CONTRAST, TIMERS, TOO_WIDE, UNNAMED_TABLES
from tests.runtime.page.shown_capture import (
    HOSTILE_SHOWN,
    TABLES,
    ShownCapture,
    captured,
    keep_tables,
    shown,
    status_line,
)
from tidemark.protocol.capture_file import MetricsEntry, read_capture_file
from tidemark.protocol.changelog.consumers import register
from tidemark.runtime.page.serving import serve_materialize
from tidemark.runtime.page.table_rows import MOST_ROWS
from tidemark.testing.chromium import Chromium, chromium, no_chromium
from tidemark.testing.deadline import wait_until

pytestmark = pytest.mark.heavy

TAB, ENTER = "\ue004", "\ue007"

COLUMN_TYPE = {"name": "column_type", "at": "0/1A", "time": "2026-01-01T00:00:00Z", "avoid": "Add a column."}


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Chromium]:
    if (reason := no_chromium()) is not None:
        pytest.skip(reason)
    with chromium() as started:
        yield started


@pytest.fixture
def browser(one_browser: Chromium) -> Iterator[Chromium]:
    """On a desktop, in light; a page must not have complained about anything but a capture that is gone."""
    one_browser.open("about:blank")
    one_browser.size(1280, 800)
    one_browser.prefer(color_scheme="light", reduced_motion="no-preference")
    one_browser.complaints()
    yield one_browser
    assert [text for text in one_browser.complaints() if "ERR_CONNECTION_REFUSED" not in text] == []
    one_browser.open("about:blank")


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[ShownCapture]:
    with shown(tmp_path) as found:
        yield found


def opened(browser: Chromium, capture: ShownCapture) -> None:
    browser.open(capture.url)
    wait_for(browser, "public.customers", "#tables-rows")


def wait_for(browser: Chromium, text: str, where: str = "body") -> None:
    wait_until(lambda: text in browser.text(where), 30, f"{where} shows {text}", every=0.05)


def everything(capture: ShownCapture) -> None:
    """What every section has to show."""
    register(capture.folder.log_store, "nightly", 1)
    keep_tables(capture.folder)
    reread = {"causes": [COLUMN_TYPE], "put_off": True}
    capture.display.notice("error", "the source is odd", code="TM-PG-001", remedy="Look at it.")
    tables = {
        "public.customers": {**TABLES["public.customers"], "reread": reread},
        "public.paused": {"rows_done": 1, "rows_estimated": 9, "state": "paused"},
        "public." + "long_name_" * 12: {"rows_done": 1, "rows_estimated": 9, "state": "waiting", "waits_for": "x" * 90},
    }
    capture.display.log(status_line(tables))


def test_what_needs_somebody_is_shown_with_what_to_do(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    assert "running (process " in browser.text("#state")
    assert browser.text("#needed") == "needs you: 1"
    assert [line for line in browser.text("#needs-list").splitlines() if line] == [
        "public.orders is set aside",
        "TM-PG-024: public.orders is not there",
        "What to do: Create the table again, or take it out of the capture file.",
    ]
    assert browser.run("return document.title") == "(1) shop: running · tidemark"
    rows = browser.run("return [...document.querySelectorAll('#tables-rows th')].map((cell) => cell.innerText)")
    assert rows[:3] == ["public.orders", "public.events", "public.visits"]


def test_a_hostile_name_is_text(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    assert HOSTILE_SHOWN in browser.text("#tables-rows")
    assert browser.run("return document.querySelectorAll('main img').length") == 0
    # And if a script forgot that, the browser would refuse it.
    markup = "try { document.body.innerHTML = '<b>'; return 'it is markup' } catch (error) { return error.name }"
    assert browser.run(markup) == "TypeError"
    (complaint,) = browser.complaints()
    assert "This document requires 'TrustedHTML' assignment" in complaint


def test_what_is_unknown_is_shown_as_unknown(browser: Chromium, capture: ShownCapture) -> None:
    capture.display.log(status_line(lag_seconds=None))
    opened(browser, capture)
    assert browser.text(".card .value") == "unknown"


def test_a_capture_that_does_not_answer_is_told_until_it_does(browser: Chromium, tmp_path: Path) -> None:
    with shown(tmp_path) as capture:
        opened(browser, capture)
        assert not browser.sees("#no-answer")
    wait_for(browser, "No answer since ", "#no-answer")
    assert browser.text("#no-answer").endswith(": the figures below are old.")
    assert browser.text("#announced").startswith("No answer since ")
    assert browser.run("return document.title") == "no answer · tidemark"
    looked, low = browser.run(LOW_CONTRAST)
    assert looked > 20 and low == []
    assert "grayscale" in browser.run("return getComputedStyle(document.querySelector('main')).filter")
    assert "public.customers" in browser.text("#tables-rows")
    with shown(tmp_path, capture.port):
        wait_until(lambda: not browser.sees("#no-answer"), 30, "it answers again", every=0.05)
        assert browser.text("#announced").startswith("shop: running. Needs you: public.orders is set aside")


def test_rows_are_kept_while_their_figures_change(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    browser.run(
        "window.row = [...document.querySelectorAll('#tables-rows tr')].find((r) => r.innerText.includes('visits'));"
        "getSelection().selectAllChildren(window.row.querySelector('bdi'))"
    )
    # One is read now, and another one has been: it goes to the end.
    reading = {"rows_done": 35, "rows_estimated": 70, "state": "scanning"}
    read = {"rows_done": 1000, "done": True, "state": "done"}
    capture.display.log(status_line({"public.visits": reading, "public.events": read}))
    wait_for(browser, "35 of about 70", "#tables-rows")
    names = browser.run("return [...document.querySelectorAll('#tables-rows th')].map((cell) => cell.innerText)")
    assert names == [
        "public.orders",
        "public.visits",
        HOSTILE_SHOWN,
        "public.customers",
        "public.events",
        "public.items",
    ]
    assert browser.run("return [window.row.isConnected, getSelection().toString()]") == [True, "public.visits"]


def test_only_changes_of_state_are_said_aloud(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    assert browser.role(browser.element("#announced")) == "status"
    browser.run(
        "window.said = []; const node = document.getElementById('announced');"
        "new MutationObserver(() => window.said.push(node.textContent)).observe(node, {childList: true, subtree: true})"
    )
    capture.display.log(status_line(lag_seconds=77.0))
    wait_for(browser, "1 min 17 s", ".card .value")
    assert browser.run("return window.said") == []
    capture.display.log(status_line({"public.events": {"rows_done": 1, "state": "failed", "error": "TM-PG-001: no"}}))
    wait_for(browser, "public.events is failed", "#needs-list")
    assert browser.run("return window.said") == [
        "shop: running. Needs you: public.events is failed; public.orders is set aside"
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(scheme: str, browser: Chromium, capture: ShownCapture) -> None:
    everything(capture)
    browser.prefer(color_scheme=scheme)
    opened(browser, capture)
    wait_for(browser, "nightly")
    looked, low = browser.run(LOW_CONTRAST)
    assert looked > 60 and low == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, ground.removeprefix("rgb(").removesuffix(")").split(","))) < 60) == (scheme == "dark")


def test_what_a_screen_reader_is_told(browser: Chromium, capture: ShownCapture) -> None:
    everything(capture)
    opened(browser, capture)
    wait_for(browser, "nightly")
    assert browser.run(UNNAMED_TABLES) == 0
    assert browser.run(HEADINGS) == ["H1", "H2", "H2", *["H3"] * 3, *["H2"] * 5]
    for selector in ("a", "input", "progress:not([hidden], [hidden] *)", ".card svg", "table"):
        found = browser.elements(selector)[:3]
        assert found and all(browser.name(one) for one in found), selector
    assert browser.name(browser.element("#filter")) == "Filter by name"
    lag = browser.name(browser.element(".drawing"))
    assert lag.startswith("Lag, the last ") and "now " in lag and "lowest " in lag and "highest " in lag
    assert browser.run("return document.documentElement.lang") == "en"


def test_on_a_phone_nothing_scrolls_sideways(browser: Chromium, capture: ShownCapture) -> None:
    everything(capture)
    for width in (320, 360, 700, 992, 993, 1216, 1280):
        browser.size(width, 740, phone=width < 400)
        opened(browser, capture)
        wait_for(browser, "nightly")
        assert browser.run(TOO_WIDE) == [], f"at {width} pixels"
        # Whatever a row looks like, it is one of a table.
        row, cell = browser.element("#tables-rows tr"), browser.element("#tables-rows td")
        assert (browser.role(row), browser.role(cell)) == ("row", "cell")


def test_the_keyboard_reaches_the_filter(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    browser.press(TAB)
    assert browser.run("return document.activeElement.innerText") == "Skip to what needs you"
    assert browser.run("return document.activeElement.getBoundingClientRect().top >= 0")
    browser.press(TAB)
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(ENTER)
    wait_until(lambda: browser.run("return document.activeElement.id") == "filter", 30, "the filter has the focus")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("EVENT")
    # The first letters find other tables, too.
    wait_until(lambda: browser.text("#tables-rows").startswith("public.events"), 30, "other tables are gone")
    browser.press("S?")
    wait_for(browser, "No table has such a name.", "#tables-more")


def test_thousands_of_tables(browser: Chromium, capture: ShownCapture) -> None:
    many = {f"public.t{number:04}": {"rows_done": 0, "rows_estimated": 9, "state": "waiting"} for number in range(3000)}
    capture.display.log(status_line(many))
    browser.open(capture.url)
    wait_for(browser, "more: filter by name to see them", "#tables-more")
    assert browser.run("return document.getElementById('tables-rows').rows.length") == MOST_ROWS
    browser.run("const f = document.getElementById('filter'); f.value = 't2999'; f.dispatchEvent(new Event('input'))")
    wait_until(lambda: browser.text("#tables-rows").startswith("public.t2999"), 30, "the last table is found")


def test_a_page_that_is_not_seen_asks_nothing(browser: Chromium, capture: ShownCapture) -> None:
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=TIMERS)
    try:
        browser.open(capture.url)
        wait_until(lambda: browser.run("return window.pending()") == 1, 30, "it will ask again")
        browser.run("window.see('hidden')")
        asked, pending = browser.run("return [window.asks, window.pending()]")
        assert pending == 0
        browser.run("window.see('visible')")
        assert browser.run("return window.asks") == asked + 1
        wait_until(lambda: browser.run("return window.pending()") == 1, 30, "it asks again and again")
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_the_page_of_materialize_has_its_own_sections(browser: Chromium, tmp_path: Path) -> None:
    folder = captured(tmp_path)
    keep_tables(folder)
    entry = MetricsEntry(listen="127.0.0.1:0")
    _, serving = serve_materialize(entry, read_capture_file(folder.file), folder.file)
    with serving as port:
        browser.open(f"http://127.0.0.1:{port}/")
        wait_for(browser, "public.items", "#spark-rows")
        assert not browser.sees("#tables") and not browser.sees("#skip-to-tables")
        assert browser.text("#needs-list").startswith("public.items history is set aside by materialize")
        assert "Furthest behind the log" in browser.text("#figures")
        assert browser.run(TOO_WIDE) == [] and browser.run(LOW_CONTRAST)[1] == []
        browser.open("about:blank")


def test_nothing_moves_for_who_wants_that(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    moving = "return getComputedStyle(document.querySelector('[data-tone=active]'), '::before').animationName"
    assert browser.run(moving) == "turn"
    browser.prefer(reduced_motion="reduce")
    assert browser.run(moving) == "none"


def test_a_gap_is_drawn_where_nothing_was_known(browser: Chromium, capture: ShownCapture) -> None:
    opened(browser, capture)
    drawn = """
      const { Charts } = await import('./charts.js');
      const list = document.createElement('div');
      document.body.append(list);
      const sample = (lag, at) => ({ number: at + 1, time: at, values: [lag], words: [`${lag} s`] });
      const samples = [1, 2, null, 0, 4].map(sample);
      const chart = { name: 'lag', last: '4 s', lowest: '0 s', highest: '4 s' };
      const figures = [{ name: 'lag', label: 'Lag', value: '4 s', notes: [] }];
      new Charts(list).show({ began: 'x', figures, history: { charts: [chart], first: 1, span: '4 s', samples } });
      return [list.querySelector('.line').getAttribute('d'), list.querySelector('figcaption').innerText];
    """
    line, caption = browser.run(drawn)
    assert line.count("M") == 2 and line.count("L") == 2
    assert caption.split() == ["4", "s", "ago", "0", "s", "to", "4", "s", "now"]
