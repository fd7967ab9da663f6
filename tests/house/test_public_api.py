"""``import tidemark`` is the public API: complete, typed, and loaded when a name is asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import pytest

import tidemark
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


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = {*sys.modules}; import tidemark; print({*sys.modules} - before, end='')"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in ast.literal_eval(asked.stdout)}
    assert imported - sys.stdlib_module_names == {"tidemark"}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'materialise'"):
        _ = tidemark.materialise  # type: ignore[attr-defined]  # mypy says so, too
