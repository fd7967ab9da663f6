"""Fixtures of the runtime's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.capture_folder import CaptureFolder


@pytest.fixture
def folder(tmp_path: Path) -> CaptureFolder:
    """A capture with a scripted connector, in a path with a space."""
    path = tmp_path / "a shop"
    path.mkdir()
    return CaptureFolder(path)
