"""The paths of the page: its files, and the document that they show."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import parse_qs

import orjson

from tidemark.runtime.metrics.server import Answer, Asked, Route, Routes
from tidemark.runtime.page.document import Document, View

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

_FILES = (
    "index.html",
    *("page.css", "charts.css", "lists.css"),
    *("page.js", "charts.js", "lists.js"),
)


def page_routes(document: Document) -> Routes:
    """What a server serves to show a page about this."""

    def shown(asked: Asked) -> Answer:
        return Answer(orjson.dumps(document.as_json(view_of(asked.query))), "application/json")

    return {**{f"/{'' if name == 'index.html' else name}": _file(name) for name in _FILES}, "/page.json": shown}


def view_of(query: str) -> View:
    """What the query of a URL asks for; what makes no sense in it is as if it was not there."""
    asked = parse_qs(query)
    wanted, after = asked.get("wanted", [""])[-1], asked.get("after", ["0"])[-1]
    return View(wanted.strip(), int(after) if after.isascii() and after.isdigit() and len(after) < 16 else 0)


def _file(name: str) -> Route:
    content = files("tidemark.runtime.page").joinpath(name).read_bytes()
    answer = Answer(content, f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8")
    return lambda _: answer
