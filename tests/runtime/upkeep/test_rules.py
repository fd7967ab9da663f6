"""What a capture file asks of its log's upkeep."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.runtime.changelog.retention.trimmed import plain
from tests.runtime.changelog.shop import ORDERS
from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.errors import UsageError
from tidemark.protocol.messages import DiscoveredBinding
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import UpkeepRules
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.preparation.known_tables import keep_known
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.upkeep.rules import upkeep_rules


def rules(folder: Path, entry: str) -> UpkeepRules:
    file = folder / "shop.yaml"
    file.write_text(f"capture: shop\nconnector: {{command: [x]}}\nlog: ./log\n{entry}\n")
    return upkeep_rules(read_capture_file(file), StateFolder.of_file(file))


@pytest.mark.parametrize(
    ("entry", "retain"),
    [
        ("", None),
        ("retain: {}", Retain()),
        ("retain: {age: 90d}", Retain(age=timedelta(days=90))),
        ("retain: {age: 12h, size: 1GB, renew: 30d}", Retain(age=timedelta(hours=12), size=10**9)),
    ],
)
def test_what_is_kept(tmp_path: Path, entry: str, retain: Retain | None) -> None:
    assert rules(tmp_path, entry).retain == retain


@pytest.mark.parametrize(
    "entry", ["retain: {age: 0s}", "retain: {size: -1}", "retain: {renew: 1m}", "retain: {days: 3}"]
)
def test_what_cannot_be(tmp_path: Path, entry: str) -> None:
    with pytest.raises(UsageError, match="retain"):
        rules(tmp_path, entry)


def test_whose_events_are_needed(tmp_path: Path) -> None:
    found = rules(tmp_path, "retain: {}")
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 2)
        assert list(found.captured()) == [ORDERS], "nothing says which tables are captured: each may be"
        other = DiscoveredBinding(recommended_name="public/items", resource_config={}, document_schema={}, key=[])
        keep_known(log.store, [other])
        assert list(found.captured()) == ["public/items"]
