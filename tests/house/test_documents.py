"""The documents say what is there: links lead somewhere, examples are valid, tables of options are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from tests.house.files import ROOT, blocks, repository_files, table_rows
from tests.house.screenshots import LARGEST, PICTURES
from tidemark.captures.contract.options import BackfillConfig
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.protocol.capture_file import (
    CaptureFile,
    CommitEntry,
    ConnectorEntry,
    FoldEntry,
    MetricsEntry,
    SparkEntry,
    StoreEntry,
    TableEntry,
    read_capture_file,
)
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.runtime.cli import app

PAGES = sorted(path for path in repository_files(".md"))
DOCS = ROOT / "docs"


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append(link)
    assert dead == []


def test_pictures_are_there_and_small() -> None:
    shown = {name for page in DOCS.glob("*.md") for name in re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text())}
    assert shown == {path.name for path in DOCS.glob("*.png")} == {f"{name}.png" for name in PICTURES}
    assert all((DOCS / name).stat().st_size < LARGEST for name in shown)


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[a-z-]+\.md)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert linked == {path.relative_to(ROOT).as_posix() for path in DOCS.glob("*.md")}


CAPTURE_FILES = [
    *(("README.md", text) for text in blocks(ROOT / "README.md", "yaml")),
    *(("docs/capture-file.md", text) for text in blocks(DOCS / "capture-file.md", "yaml")),
    ("examples/shop.yaml", (ROOT / "examples" / "shop.yaml").read_text(encoding="utf-8")),
]


@pytest.mark.parametrize(("name", "text"), CAPTURE_FILES, ids=[name for name, _ in CAPTURE_FILES])
def test_the_capture_files_that_are_shown_are_valid(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(text, encoding="utf-8")
    assert read_capture_file(path).capture == "shop"


def _options(page: Path) -> dict[str, str]:
    """First and second cell of the rows whose first cell begins with a name in code."""
    rows = (row for row in table_rows(page) if row[0].startswith("`"))
    return {re.findall(r"`([^`]+)`", row[0])[0]: row[1] for row in rows}


def test_every_key_of_the_capture_file_is_explained() -> None:
    page = DOCS / "capture-file.md"
    explained = _options(page).keys()
    for model in (ConnectorEntry, TableEntry, StoreEntry, CommitEntry, MetricsEntry, SparkEntry, FoldEntry):
        assert set(model.model_fields) <= explained, model.__name__
    headings = re.findall(r"^## `(\w+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(CaptureFile.model_fields)


def _defaults(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}{name}": field.default for name, field in model.model_fields.items() if name != "backfill"}


def test_every_option_of_the_postgres_connector_is_explained_with_its_default() -> None:
    shown = _options(DOCS / "postgres.md")
    options = _defaults(EndpointConfig) | _defaults(BackfillConfig, "backfill.")
    wrong = {}
    for name, default in options.items():
        if name not in shown:
            wrong[name] = "is not explained"
        elif "default" not in EndpointConfig.model_json_schema()["properties"].get(name, {"default": default}):
            continue  # It depends on the capture.
        elif isinstance(default, str | int | float):
            text = str(default).lower() if isinstance(default, bool) else f"{default}".removesuffix(".0")
            if f"`{text}`" != shown[name].replace(".0`", "`"):
                wrong[name] = f"is {text} and not {shown[name]}"
    assert wrong == {}


def test_every_option_of_a_postgres_table_is_explained() -> None:
    names = {field.alias or name for name, field in ResourceConfig.model_fields.items()} - {"schema"}
    assert names <= _options(DOCS / "capture-file.md").keys()


def test_every_option_of_the_spark_source_is_explained() -> None:
    from tidemark.spark_sink.source import options as source_options

    assert {*source_options.NAMES, *source_options.ALIASES} <= _options(DOCS / "spark.md").keys()


def test_every_meta_column_is_explained() -> None:
    shown = _options(DOCS / "changelog.md")
    types = {name: type_.replace("array<string>", "array of string") for name, type_ in META_COLUMNS.items()}
    assert {name: shown.get(name) for name in types} == types


def _commands(group: Any, words: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command by its words. typer brings a click of its own, whose types are not those of the package."""
    found = {words: group}
    for name, command in getattr(group, "commands", {}).items():
        found |= _commands(command, (*words, name))
    return found


def test_the_commands_that_are_shown_exist() -> None:
    known = _commands(typer.main.get_command(app))
    shown = [
        line[2:].split("#")[0].split()
        for page in PAGES
        for text in blocks(page, "console")
        for line in text.splitlines()
        if line.startswith("$ tidemark")
    ]
    assert shown
    for _, *words in shown:
        path = tuple(words[:2]) if tuple(words[:2]) in known else tuple(words[:1])
        assert path in known, " ".join(words)
        options = {
            option for parameter in known[path].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word for word in words if word.startswith("--")} <= options, " ".join(words)
