"""Opens the store at a place: a directory, or an object store by its URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.settings import StoreSettings
from tidemark.protocol.store.store import Store

_OF_A_KEY = ("access_key_id", "secret_access_key", "session_token")


def is_url(place: str) -> bool:
    """Whether a place is in an object store."""
    return "://" in place and not place.startswith("file://")


def joined(place: str, path: str) -> str:
    """A place beneath another one."""
    return f"{place.rstrip('/')}/{path}"


def opened(place: str | Path, settings: StoreSettings | None = None) -> Store:
    """The store at a place. Nothing is asked of it yet.

    Args:
        place: A path, or a URL such as ``s3://bucket/shop.log``.
        settings: What the environment does not say.
    """
    text = str(place)
    if not is_url(text):
        return DirectoryStore(text.removeprefix("file://"))
    # Connectors have no obstore, nor do they open one.
    from obstore.store import from_url

    from tidemark.protocol.store.objects import ObjectStore

    told = settings or StoreSettings()
    names = ("endpoint", "region", *_OF_A_KEY)
    config = {name: value for name in names if (value := getattr(told, name)) is not None}
    if told.access_key_id is not None and "AWS_SESSION_TOKEN" in os.environ:
        # A key is a set: that token is of another one.
        config.setdefault("session_token", "")
    options: dict[str, Any] = {"client_options": {"allow_http": True}} if told.allow_http else {}
    client: Any = from_url(text, **options, **config)
    return ObjectStore(client, text)
