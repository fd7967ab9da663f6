"""Profiles of AWS: keys, a region and an address in the files that its command line and libraries share.

The files and their settings are described in AWS's "SDKs and Tools Reference Guide", under "Shared config and
credentials files" and "Process credential provider". What obstore takes from the environment it takes by itself; of
these files it knows nothing. Profiles that sign in, or take a role, are left to AWS's own command line, by
``credential_process``.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
from collections.abc import Mapping
from configparser import Error as UnreadableError
from configparser import RawConfigParser
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypedDict

from tidemark.protocol.errors import UsageError

logger = logging.getLogger(__name__)

_FILES = (
    ("AWS_CONFIG_FILE", "~/.aws/config", "profile "),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", ""),
)
"""The variable that names a file, where it is otherwise, and how names of its sections begin. The last file wins."""

_KEYS = ("aws_access_key_id", "aws_secret_access_key")
_SIGNS_IN = ("sso_session", "sso_start_url", "role_arn", "login_session")
"""Settings of profiles whose keys are got by requests."""

_READ_AGAIN = timedelta(minutes=10)
"""Keys that stand in a file are taken from there again after this time, as whoever rotates them expects."""

_EARLY = timedelta(minutes=5)
"""Keys that end are replaced so long before."""

_AFTER_FAILURE = timedelta(seconds=20)
"""Where new keys cannot be had, those that have not ended yet are given for so long before new ones are tried again."""

_PROCESS_SECONDS = 60.0


class Keys(TypedDict):
    """What obstore takes of its credential provider."""

    access_key_id: str
    secret_access_key: str
    token: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile, as it stands in the files.

    Attributes:
        name: Its name.
        settings: Of both files, by their names in small letters.
    """

    name: str
    settings: Mapping[str, str] = field(repr=False)

    @property
    def keys(self) -> ProfileKeys | None:
        """What gives its keys; None where it has none, so that they come from the machine.

        Raises:
            UsageError: ``TM-CFG-014`` where they would have to be got by requests, or one of them is missing.
        """
        given = [name for name in _KEYS if name in self.settings]
        if len(given) == 1:
            raise UsageError("TM-CFG-014", f"the profile {self.name} has {given[0]} alone")
        if given or "credential_process" in self.settings:
            return _keys_of(self.name, *(_place(variable, usual) for variable, usual, _ in _FILES))
        if asked := next((name for name in _SIGNS_IN if name in self.settings), None):
            raise UsageError("TM-CFG-014", f"the profile {self.name} has its keys by {asked}")
        return None


def profile(name: str | None) -> Profile | None:
    """The profile of a name, else the one that ``AWS_PROFILE`` names, else the default one if there is one.

    Raises:
        UsageError: ``TM-CFG-014`` a file cannot be read, or there is no profile of a name that was given.
    """
    asked = name or os.environ.get("AWS_PROFILE")
    found: dict[str, str] = {}
    is_there = False
    for variable, usual, prefix in _FILES:
        sections = _sections(Path(_place(variable, usual)), needed=asked is not None)
        wanted = asked or "default"
        for section in [f"{prefix}{wanted}"] if wanted != "default" else ["default", f"{prefix}default"]:
            if section in sections:
                is_there = True
                found |= sections[section]
    if not is_there and asked:
        raise UsageError("TM-CFG-014", f"there is no profile {asked}")
    return Profile(asked or "default", found) if is_there else None


def _sections(path: Path, *, needed: bool) -> dict[str, dict[str, str]]:
    """The sections of a file; none where it does not exist, or where nobody named a profile and it may not be read."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        if not needed:
            return {}
        raise UsageError("TM-CFG-014", f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, UnreadableError):
        # What the parser says has the line in it, which may be a key.
        raise UsageError("TM-CFG-014", f"{path} is not a file of sections with names and values") from None
    return {name: dict(parser[name]) for name in parser.sections()}


class ProfileKeys:
    """Gives the keys of a profile, as obstore asks for them: again before they end.

    Args:
        name: The profile.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: Keys | None = None
        self._not_before = datetime.min.replace(tzinfo=UTC)
        self._lock = Lock()

    def __call__(self) -> Keys:
        """The keys: new ones soon before those that were given end, or the same where no new ones are to be had yet.

        Raises:
            UsageError: ``TM-CFG-014`` those that were given have ended, or there were none; and they are not there any
                more, or the process that gives them failed.
        """
        with self._lock:
            now = datetime.now(UTC)
            left = timedelta() if self._given is None else self._given["expires_at"] - now
            if self._given is None or left <= timedelta() or (left < _EARLY and now >= self._not_before):
                try:
                    self._given = self._read()
                except UsageError as error:
                    if self._given is None or left <= timedelta():
                        raise
                    logger.warning("the keys from before are used until they end: %s", error)
                    self._not_before = now + _AFTER_FAILURE
            return self._given

    def _read(self) -> Keys:
        found = profile(self._name)
        settings = {} if found is None else found.settings
        if _KEYS[0] in settings and _KEYS[1] in settings:
            return Keys(
                access_key_id=settings[_KEYS[0]],
                secret_access_key=settings[_KEYS[1]],
                token=settings.get("aws_session_token"),
                expires_at=datetime.now(UTC) + _READ_AGAIN,
            )
        if "credential_process" not in settings:
            raise UsageError("TM-CFG-014", f"the profile {self._name} has no keys any more")
        return self._of_process(shlex.split(settings["credential_process"]))

    def _of_process(self, command: list[str]) -> Keys:
        who = f"the credential_process of the profile {self._name}"
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_PROCESS_SECONDS)
        except OSError as error:
            raise UsageError("TM-CFG-014", f"{who} cannot be started: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise UsageError("TM-CFG-014", f"{who} did not end within {_PROCESS_SECONDS:.0f} s") from None
        if done.returncode:
            raise UsageError("TM-CFG-014", f"{who} ended with status {done.returncode}: start it to see why")
        try:
            said = json.loads(done.stdout)
            if said["Version"] != 1:
                raise ValueError
            ends = datetime.fromisoformat(said["Expiration"]) if said.get("Expiration") else None
            return Keys(
                access_key_id=str(said["AccessKeyId"]),
                secret_access_key=str(said["SecretAccessKey"]),
                token=said.get("SessionToken"),
                expires_at=_READ_AGAIN + datetime.now(UTC) if ends is None else _in_utc(ends),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UsageError("TM-CFG-014", f"{who} did not print keys as version 1 of its format has them") from None


@cache
def _keys_of(name: str, *files: str) -> ProfileKeys:
    """One for all stores that a process opens: the process that gives them may take a second."""
    return ProfileKeys(name)


def _place(variable: str, usual: str) -> str:
    return os.path.expanduser(os.environ.get(variable) or usual)  # noqa: PTH111 - an account may have no home


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
