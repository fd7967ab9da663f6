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

_OF_AWS = ("s3", "s3a")

_IN_ENVIRONMENT = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
}
"""The variables that come before a profile's settings."""

_OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE")
"""Variables that say who asks. As in AWS's libraries, they come before a profile which no capture file names."""

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
        UsageError: ``TM-CFG-009`` for a URL that names no bucket, or settings that do not fit it; ``TM-CFG-014`` for a
            profile that gives no keys.
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
    options: dict[str, Any] = {"client_options": {"allow_http": True}} if told.allow_http else {}
    parts = urlsplit(text)
    if not parts.netloc or parts.username or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        raise UsageError("TM-CFG-009", f"{shown} is not a bucket and a path in it alone")
    if told.access_key_id is None:
        if parts.scheme in _OF_AWS:
            _add_profile(config, options, told.profile)
    elif "AWS_SESSION_TOKEN" in os.environ:
        # A key is a set: that token is of another one.
        config.setdefault("session_token", "")
    allowed = told.allow_http or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    if config.get("endpoint", "").startswith("http://") and not allowed:
        raise UsageError("TM-CFG-009", f"the endpoint of {text} begins with http://, which allow_http does not allow")
    try:
        client: Any = from_url(
            text, retry_config={"retry_timeout": retried, "max_retries": _RETRIES}, **options, **config
        )
    except (BaseError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError("TM-CFG-009", f"{text} cannot be opened: {reason}") from None
    return ObjectStore(client, text, retried)


def _add_profile(config: dict[str, str], options: dict[str, Any], name: str | None) -> None:
    """Adds what a profile says, to what a store is opened with, where nothing else says it."""
    # Most stores need no profile.
    from tidemark.protocol.store.profiles import profile

    if (found := profile(name)) is None:
        return
    for setting, text in (("region", "region"), ("endpoint", "endpoint_url")):
        if text in found.settings and not any(variable in os.environ for variable in _IN_ENVIRONMENT[setting]):
            config.setdefault(setting, found.settings[text])
    if (name is not None or not any(variable in os.environ for variable in _OTHER_KEYS)) and (keys := found.keys):
        options["credential_provider"] = keys
