"""Readers of which the log knows."""

from __future__ import annotations

from tidemark.protocol.changelog.layout import CONSUMERS
from tidemark.protocol.changelog.models import Consumer
from tidemark.protocol.store import Store


def consumers(store: Store) -> list[Consumer]:
    """All of them, sorted by position."""
    found = [Consumer.model_validate_json(store.read(entry.path)) for entry in store.list(CONSUMERS)]
    return sorted(found, key=lambda one: one.position)
