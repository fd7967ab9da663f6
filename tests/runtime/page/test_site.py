"""What the server answers besides metrics: the page's files and document, and who may have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house.files import ROOT
from tests.house.test_layout import LONGEST_OF_PRODUCT
from tests.runtime.page.shown_capture import ShownCapture, ask, shown

FILES = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/lists.js": "text/javascript"}

MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<style", " style=", " onload")
"""What would let a text become more than that."""

FOLDER = ROOT / "runtime" / "page"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCapture]:
    with shown(tmp_path_factory.mktemp("shown")) as found:
        yield found


@pytest.mark.parametrize("path", [*FILES, "/page.json", "/metrics", "/healthz", "/readyz", "/none"])
def test_each_answer_keeps_other_sites_out(path: str, capture: ShownCapture) -> None:
    _, headers, _ = ask(capture.port, path)
    policy = headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    for own in ("script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"):
        assert own in policy
    assert {"base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'"} <= {*policy}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(("path", "kind"), FILES.items())
def test_files_have_their_types(path: str, kind: str, capture: ShownCapture) -> None:
    status, headers, body = ask(capture.port, path)
    assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8") and body


def test_the_document_is_json(capture: ShownCapture) -> None:
    status, headers, _ = ask(capture.port, "/page.json?wanted=x")
    assert (status, headers["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("path", [*FILES, "/page.json"])
def test_who_asks_by_another_name_is_told_nothing(path: str, capture: ShownCapture) -> None:
    status, _, body = ask(capture.port, path, Host="evil.example")
    assert (status, body) == (403, "this name is not one of metrics.hosts\n")


def test_what_is_not_there_is_told_with_what_is(capture: ShownCapture) -> None:
    for path in ("/../pyproject.toml", "/page.json/x", "/document.py", "/index.html"):
        status, _, body = ask(capture.port, path)
        assert status == 404
        assert body.startswith("here are /, ") and "/metrics" in body


def test_every_file_of_the_page_is_served_and_names_no_other_host(capture: ShownCapture) -> None:
    names = {path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".css", ".js")}
    for name in names:
        text = ask(capture.port, "/" if name == "index.html" else f"/{name}")[2]
        assert text == (FOLDER / name).read_text(encoding="utf-8")
        assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert [markup for markup in MARKUP if markup in text] == [], name
        assert len(text.splitlines()) <= LONGEST_OF_PRODUCT, name
