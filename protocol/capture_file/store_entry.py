"""The ``store`` entry of a capture file: what opens an object store, beside what the environment says."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, model_validator

from tidemark.protocol.capture_file.stated_secrets import Found, in_environment, in_file
from tidemark.protocol.capture_file.values import STRICT
from tidemark.protocol.errors import UsageError
from tidemark.protocol.store.settings import StoreSettings


class Secret(BaseModel):
    """A value that stands elsewhere: in a variable of the environment, or in a file.

    Attributes:
        env: The name of the variable.
        file: The path of the file, whose last line end is no part of the value.
    """

    model_config = STRICT

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("give either env or file")
        return self

    def found(self, folder: Path, place: str) -> Found:
        """The value, or why there is none."""
        if self.env is not None:
            return in_environment(self.env, place)
        assert self.file is not None, "one of both is given"
        return in_file(self.file, folder, place)


class StoreEntry(BaseModel):
    """An object store. What is absent is taken from the environment.

    Attributes:
        endpoint: The address of a store that is not the cloud's own.
        allow_http: Whether that may be ``http://…``.
        region: Of the bucket.
        access_key_id: The id of a key.
        secret_access_key: The key.
        session_token: Of a key that ends.
        profile: The name of a profile that has the key, in files of AWS.
    """

    model_config = STRICT

    endpoint: str | Secret | None = None
    allow_http: bool = False
    region: str | Secret | None = None
    access_key_id: str | Secret | None = None
    secret_access_key: str | Secret | None = Field(default=None, repr=False)
    session_token: str | Secret | None = Field(default=None, repr=False)
    profile: str | Secret | None = None

    @model_validator(mode="after")
    def _one_key(self) -> StoreEntry:
        if self.profile is not None and self.access_key_id is not None:
            raise ValueError("give either profile or access_key_id")
        return self

    def settings(self, folder: Path) -> StoreSettings:
        """The entry with its secrets. Relative paths of files start at ``folder``.

        Raises:
            UsageError: ``TM-CFG-003`` naming every variable that is not set and every file that cannot be read.
        """
        found: dict[str, str | None] = {}
        missing = []
        for name in ("endpoint", "region", "access_key_id", "secret_access_key", "session_token", "profile"):
            value: str | Secret | None = getattr(self, name)
            if isinstance(value, Secret):
                found[name], complaint = value.found(folder, f"store.{name}")
                missing += [complaint] if complaint and found[name] is None else []
            else:
                found[name] = value
        if missing:
            raise UsageError("TM-CFG-003", "; ".join(missing))
        return StoreSettings(allow_http=self.allow_http, **found)
