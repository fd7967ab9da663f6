"""Opens the store at a place: a directory, or an object store by its URL."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidemark.protocol.errors import UsageError
from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.settings import StoreSettings
from tidemark.protocol.store.store import Store

RETRIED = timedelta(seconds=60)
"""For how long a request is tried again that the store did not answer, or put off."""

_RETRIES = 10_000
"""More than there can be in that time, which alone counts."""

_OF_A_KEY = ("access_key_id", "secret_access_key", "session_token")


def is_url(place: str) -> bool:
    """Whether a place is in an object store."""
    return "://" in place and not place.startswith("file://")


def joined(place: str, path: str) -> str:
    """A place beneath another one."""
    return f"{place.rstrip('/')}/{path}"


def opened(place: str | Path, settings: StoreSettings | None = None, retried: timedelta = RETRIED) -> Store:
    """The store at a place. Nothing is asked of it yet.

    Args:
        place: A path, or a URL such as ``s3://bucket/shop.log``.
        settings: What the environment does not say.
        retried: For how long a request is tried again.

    Raises:
        UsageError: ``TM-CFG-009`` for a URL that names no bucket, or settings that do not fit it.
    """
    text = str(place)
    if not is_url(text):
        return DirectoryStore(text.removeprefix("file://"))
    # Connectors have no obstore, nor do they open one.
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    from tidemark.protocol.store.objects import ObjectStore

    told = settings or StoreSettings()
    names = ("endpoint", "region", *_OF_A_KEY)
    config = {name: value for name in names if (value := getattr(told, name)) is not None}
    if told.access_key_id is not None and "AWS_SESSION_TOKEN" in os.environ:
        # A key is a set: that token is of another one.
        config.setdefault("session_token", "")
    options: dict[str, Any] = {"client_options": {"allow_http": True}} if told.allow_http else {}
    parts = urlsplit(text)
    if not parts.netloc or parts.username or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        raise UsageError("TM-CFG-009", f"{shown} is not a bucket and a path in it alone")
    if (told.endpoint or "").startswith("http://") and not told.allow_http:
        raise UsageError("TM-CFG-009", f"the endpoint of {text} begins with http://, which allow_http does not allow")
    try:
        client: Any = from_url(
            text, retry_config={"retry_timeout": retried, "max_retries": _RETRIES}, **options, **config
        )
    except (BaseError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError("TM-CFG-009", f"{text} cannot be opened: {reason}") from None
    return ObjectStore(client, text, retried)
