"""What opens an object store beside its URL: where it is, and the keys to it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The ``store`` entry of a capture file, its secrets filled in. What it leaves out is taken from the environment.

    Attributes:
        endpoint: The address of a store that is not the cloud's own.
        allow_http: Whether the address may be ``http://…``.
        region: Of the bucket.
        access_key_id: The id of a key.
        secret_access_key: The key.
        session_token: Of a key that ends.
        profile: The name of a profile that has the key, in files of AWS.
    """

    endpoint: str | None = None
    allow_http: bool = False
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
