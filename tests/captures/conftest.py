"""What tests of captures share."""

from __future__ import annotations

import pytest

from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES


@pytest.fixture(params=["", ARROW], ids=["lines", "columns"])
def both_forms(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connectors are offered batches of columns, and are not."""
    monkeypatch.setenv(BATCHES, request.param)
