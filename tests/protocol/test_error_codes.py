"""The table of error codes: complete, in step with the sources, and of use to a person."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.protocol_documents import ROOMS
from tidemark.protocol import errors
from tidemark.protocol.error_codes import CODES, ErrorCode, Policy, _table
from tidemark.protocol.errors import ConnectorError, ProtocolError, TidemarkError, UsageError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["protocol", "backfill", "captures", "connectors", "runtime", "spark_sink", "tidemark"]
CODE = re.compile(r"TM-[A-Z]+-\d{3}")


def _strings(path: Path) -> Iterator[str]:
    """Every string in a source file that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def _raised() -> dict[str, Path]:
    """The codes that the sources name outside the table, each with a file that does."""
    return {
        code: path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.parent.name != "error_codes"
        for text in _strings(path)
        for code in CODE.findall(text)
    }


def test_every_code_of_the_sources_is_in_the_table() -> None:
    unknown = {code: path.relative_to(ROOT).as_posix() for code, path in _raised().items() if code not in CODES}
    assert unknown == {}


def test_every_code_of_the_table_is_raised_somewhere() -> None:
    assert sorted(CODES.keys() - _raised().keys()) == []


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


def test_a_code_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        _table(CODES["TM-PRO-001"], CODES["TM-PRO-001"])


def test_an_error_says_its_code_and_falls_back_on_the_tables_remedy() -> None:
    error = ProtocolError("TM-PRO-001", "a request line is not JSON")
    assert str(error) == "TM-PRO-001: a request line is not JSON"
    assert error.remedy == CODES["TM-PRO-001"].remedy
    assert ProtocolError("TM-PRO-001", "x", remedy="Do this.").remedy == "Do this."


def test_an_unknown_code_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(KeyError):
        ProtocolError("TM-PRO-999", "x")


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(UsageError("TM-LOG-001", "no log here", remedy="Do this.")))
    assert type(error) is UsageError
    assert (error.code, error.message, error.remedy) == ("TM-LOG-001", "no log here", "Do this.")
    entry = ErrorCode("ACME-7", "The licence has expired", Policy.MANUAL, "Renew it.", "")
    assert pickle.loads(pickle.dumps(ConnectorError(entry, "no licence"))).entry == entry


def test_only_wrong_usage_exits_with_two() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TidemarkError)]
    assert {kind.__name__: kind.exit_status for kind in kinds} == {
        kind.__name__: 2 if kind is UsageError else 1 for kind in kinds
    }
