"""How large files and folders may be, so that a stranger finds the way."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.house.files import ROOT, repository_files

LONGEST = 500
"""Lines of a source file: beyond that it has more than one subject."""

LONGEST_OF_PRODUCT = 400

MOST_MODULES = 15
"""In one folder, besides its ``__init__``."""

STILL_LONGER: set[str] = set()
"""Files of before the rule. The list only gets shorter: split a file, then remove it here."""


@pytest.fixture(scope="module")
def lengths() -> dict[str, int]:
    """Lines of every source file by its path."""
    found = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in repository_files(".py")
    }
    assert found
    return found


def _of_product(path: str) -> bool:
    return not path.startswith("tests/")


def test_no_source_file_is_too_long(lengths: dict[str, int]) -> None:
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


def test_no_file_of_the_product_is_longer_than_those_that_were(lengths: dict[str, int]) -> None:
    longer = {path for path, length in lengths.items() if length > LONGEST_OF_PRODUCT and _of_product(path)}
    assert longer - STILL_LONGER == set(), f"files of more than {LONGEST_OF_PRODUCT} lines: split them by subject"
    assert STILL_LONGER - longer == set(), "these are short enough by now: remove them from the list"


def test_no_folder_of_the_product_has_too_many_modules(lengths: dict[str, int]) -> None:
    modules = Counter(
        path.rpartition("/")[0] for path in lengths if _of_product(path) and not path.endswith("__init__.py")
    )
    crowded = {folder: count for folder, count in modules.items() if count > MOST_MODULES}
    assert crowded == {}, f"folders of more than {MOST_MODULES} modules: give them floors"
