"""The error codes of all rooms: complete, in step with the sources, and of use to a person."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

from tests.house.error_codes import BY_ROOM, CODES
from tests.house.files import ROOT
from tests.house.protocol_documents import ROOMS
from tidemark.protocol.error_codes import REGISTERED, ErrorCode, Policy
from tidemark.protocol.errors import TidemarkError

PACKAGES = ["protocol", "backfill", "captures", "connectors", "runtime", "spark_sink", "testing", "tidemark"]
CODE = re.compile(r"TM-[A-Z]+-\d{3}")


def _strings(path: Path) -> Iterator[str]:
    """Every string in a source file that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def _module(path: Path) -> str:
    """The name by which a source file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "tidemark" else ("tidemark", *parts)).removesuffix(".__init__")


@pytest.fixture(scope="module")
def raised() -> dict[str, set[str]]:
    """The codes that a module raises or names, by the module; what lists them is left out."""
    lists = {"tidemark.protocol.error_codes.protocol", *(f"{room}.error_codes" for room in BY_ROOM)}
    found = {
        _module(path): {code for text in _strings(path) for code in CODE.findall(text)}
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert lists <= found.keys()
    return {module: codes for module, codes in found.items() if codes and module not in lists}


def test_every_code_of_the_sources_is_listed(raised: dict[str, set[str]]) -> None:
    assert {module: unknown for module, codes in raised.items() if (unknown := codes - CODES.keys())} == {}


def test_every_code_that_is_listed_is_raised_somewhere(raised: dict[str, set[str]]) -> None:
    assert sorted(CODES.keys() - set().union(*raised.values())) == []


def test_every_code_is_listed_once_and_registered() -> None:
    assert len(CODES) == sum(map(len, BY_ROOM.values()))
    assert CODES == REGISTERED


def test_what_a_module_raises_is_registered_by_what_it_imports(raised: dict[str, set[str]]) -> None:
    """Otherwise an error fails for its unknown code in some processes, and in others not."""
    home = {each.code: room for room, codes in BY_ROOM.items() for each in codes}
    graph = grimp.build_graph("tidemark", exclude_type_checking_imports=True, cache_dir=None)
    lost = {}
    for module, codes in raised.items():
        imported = {f"{name}." for name in (module, *graph.find_upstream_modules(module))}
        homes = {home[code] for code in codes}
        if foreign := {room for room in homes if not any(name.startswith(f"{room}.") for name in imported)}:
            lost[module] = foreign
    assert lost == {}


@pytest.mark.parametrize("row", CODES.values(), ids=CODES.keys())
def test_a_code_tells_a_person_what_to_do(row: ErrorCode) -> None:
    assert re.fullmatch(r"TM-[A-Z]+-\d{3}", row.code)
    assert row.code.split("-")[1] in ROOMS, (
        "tests.house.protocol_documents.ROOMS gives every group of codes its heading"
    )
    assert re.fullmatch(r"[A-Za-z].*[^.!?:; ]", row.title, re.DOTALL), "a heading, without a full stop"
    assert re.fullmatch(r"[A-Z'].{15,}[.;]", row.remedy, re.DOTALL), "sentences, or a statement at the end"
    assert isinstance(row.policy, Policy)


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_one_anchor_where_the_error_points(code: str) -> None:
    page, anchor = TidemarkError(code, "x").documentation.split("#")
    headings = re.findall(r"^### (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert [heading.lower() for heading in headings].count(anchor) == 1
