"""What opens a table's store for delta-rs, which has a client of its own."""

from __future__ import annotations

import os
from typing import Any

from tidemark.spark_sink.tables.store_place import StorePlace

_TOKEN = "aws_session_token"

_RETRIED = "60s"
"""How long delta-rs tries a request again. By default it takes three minutes to say that a store does not answer."""

_ENDPOINTS = ("aws_endpoint_url", "aws_endpoint_url_s3")
"""Both names of the same: delta-rs takes each that is not given from the environment, and the second one wins."""


def delta_storage(place: StorePlace) -> dict[str, str] | None:
    """The options of delta-rs for a table; None for a directory.

    They are those of our own client. What that takes from the environment, delta-rs takes from there as well. It does
    so with each name that is not given: so a set of keys is given as a whole, also where it has no session token.

    A commit creates its file only where there is none, by a conditional request. So it needs no lock beside the store.
    """
    store = place.store
    if store.directory is not None:
        return None
    # A lake in a directory needs no client.
    from tidemark.protocol.store.objects import ObjectStore

    assert isinstance(store, ObjectStore), "a store is one of the two"
    client: Any = store.client
    options = {f"aws_{name}": str(value) for name, value in client.config.items() if name != "bucket"}
    options |= {name: str(value) for name, value in (client.client_options or {}).items()}
    if (endpoint := options.pop("aws_endpoint", None)) is not None:
        options |= dict.fromkeys(_ENDPOINTS, endpoint)
    if client.credential_provider is not None:
        keys = client.credential_provider()
        options |= {f"aws_{name}": keys[name] for name in ("access_key_id", "secret_access_key")}
        options |= {_TOKEN: keys["token"]} if keys.get("token") else {}
    if "aws_access_key_id" in options and _TOKEN.upper() in os.environ:
        options.setdefault(_TOKEN, "")
    return {**options, "aws_conditional_put": "etag", "retry_timeout": _RETRIED}
