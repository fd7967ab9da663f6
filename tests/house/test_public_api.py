"""``import tidemark`` is the public API: complete, typed, and loaded when a name is asked for."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidemark
from tests.house import api_page
from tests.house.files import ROOT
from tidemark.protocol import errors, messages
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.messages import REQUESTS, RESPONSES, Message

FUNCTIONS = {"register", "read_table", "read_tables", "read_changes", "materialize"}


def test_it_is_what_is_said_to_be_public_and_nothing_else() -> None:
    raised = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TidemarkError)}
    parts = {name for name, kind in vars(messages).items() if isinstance(kind, type) and issubclass(kind, Message)}
    assert {kind.__name__ for kind in (*REQUESTS.values(), *RESPONSES.values())} <= parts
    expected = FUNCTIONS | raised | parts - {"Message"} | {"ChangeLog", "Action", "MissingExtraError"}
    assert set(tidemark.__all__) == expected
    assert dir(tidemark) == sorted(expected)


def test_a_type_checker_sees_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse((ROOT / "tidemark" / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    homes = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert homes.keys() == set(tidemark.__all__)
    for name, home in homes.items():
        assert getattr(tidemark, name) is getattr(importlib.import_module(home), name)


def test_every_name_is_documented() -> None:
    assert [name for name in tidemark.__all__ if not getattr(tidemark, name).__doc__] == []


def test_its_page_is_what_its_docstrings_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert api_page.main(["--check"]) == 0
    page = tmp_path / "api.md"
    assert api_page.main(["--check"], page) == 1
    assert capsys.readouterr().err == "docs/api.md is out of date; run: python -m tests.house.api_page\n"
    assert api_page.main([], page) == 0
    assert page.read_bytes() == api_page.PAGE.read_bytes()
    headings = re.findall(r"^#+ (\w+)$|^\| `(\w+Error)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {first or second for first, second in headings} >= set(tidemark.__all__)


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = {*sys.modules}; import tidemark; print({*sys.modules} - before, end='')"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in ast.literal_eval(asked.stdout)}
    assert imported - sys.stdlib_module_names == {"tidemark"}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'materialise'"):
        _ = tidemark.materialise  # type: ignore[attr-defined]  # mypy says so, too
