"""The demo's directory: replaced only when it is the demo's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.demo import run
from tidemark.demo.directory import MARKER, DemoDirectory
from tidemark.protocol.errors import UsageError


def test_what_an_earlier_demo_left_is_replaced(tmp_path: Path) -> None:
    demo = DemoDirectory.make(tmp_path / "the demo")
    (demo.root / "lake" / "deep").mkdir(parents=True)
    demo.change_log.mkdir()
    (demo.root / "link").symlink_to(tmp_path)
    again = DemoDirectory.make(tmp_path / "the demo")
    assert sorted(entry.name for entry in again.root.iterdir()) == [MARKER, "logs"]
    assert tmp_path.is_dir()


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    assert (DemoDirectory.make(tmp_path).root / MARKER).is_file()


@pytest.mark.parametrize("what", ["file", "directory"])
def test_anything_else_is_left_alone(tmp_path: Path, what: str) -> None:
    place = tmp_path / "demo"
    if what == "directory":
        place.mkdir()
        (place / "precious").write_text("data")
    else:
        place.write_text("data")
    with pytest.raises(UsageError) as caught:
        run(place, 1000)
    assert caught.value.code == "TM-DEMO-002"
    assert (place / "precious" if what == "directory" else place).read_text() == "data"
