"""When rows may be sent as columns."""

from __future__ import annotations

import logging

import pytest

from tidemark.captures.tables.read_as_columns import columns_offered
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES


def test_without_the_packages_rows_come_as_lines_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    packages = ("orjson", "tidemark_has_no_such_package")
    monkeypatch.delenv(BATCHES, raising=False)
    assert not columns_offered(packages) and not caplog.records
    monkeypatch.setenv(BATCHES, ARROW)
    assert columns_offered(("orjson",)) and not caplog.records
    assert not columns_offered(packages)
    (said,) = caplog.records
    assert "tidemark_has_no_such_package" in said.message and "orjson" not in said.message
