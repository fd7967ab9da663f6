"""Authentication methods, and the errors for a refused user.

PyMySQL knows ``mysql_native_password``, ``caching_sha2_password`` and ``sha256_password`` (over TLS, or by the server's
RSA key), and MariaDB's ``ed25519``. The server says which one an account has.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import pymysql
from pymysql.constants import CR, ER

from tidemark.captures.mysql.server.wire import is_encrypted, read_packet
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.protocol.errors import SourceError

_SECURE_TRANSPORT_REQUIRED = 3159
_SOCKET = 1698
"""ER_ACCESS_DENIED_NO_PASSWORD_ERROR: a method without a password."""

_EXPIRED = frozenset((ER.MUST_CHANGE_PASSWORD, ER.MUST_CHANGE_PASSWORD_LOGIN))
_LOCKED = frozenset((3118, 4151))
_BLOCKED = frozenset((3955, 4150))
_METHOD = frozenset((ER.NOT_SUPPORTED_AUTH_MODE, 1524, CR.CR_AUTH_PLUGIN_CANNOT_LOAD, CR.CR_AUTH_PLUGIN_ERR))
_REFUSED = frozenset(
    (ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.HOST_NOT_PRIVILEGED, _SOCKET, CR.CR_SECURE_AUTH)
).union(_EXPIRED, _LOCKED, _BLOCKED, _METHOD)

_METHOD_REMEDY = (
    "Check that the account exists for the connector's host (MariaDB asks unknown accounts for any method), and give "
    "it mysql_native_password, caching_sha2_password, sha256_password or ed25519. PAM and LDAP work by "
    "mysql_clear_password (MariaDB: pam_use_cleartext_plugin = ON) over an encrypted connection: ssl_mode: REQUIRED."
)
_SOCKET_REMEDY = (
    "Check that the account exists for the connector's host, and has a password: unix_socket (auth_socket) accepts "
    "only the operating system's user with the account's name, over the server's socket."
)
_ACCESS_REMEDY = (
    "Check user and password, and that the account exists for the connector's host: SELECT user, host FROM mysql.user; "
    "(An anonymous account, of user '', comes before accounts for less exact hosts: DROP USER ''@'HOST';) "
)


class _ClearText:
    """Sends the password in clear text, as PAM, LDAP and RDS's tokens require; only over an encrypted connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        connection = self._connection
        if not is_encrypted(connection):
            # An attacker in between could ask for it, whatever method the account has.
            raise pymysql.OperationalError(
                CR.CR_AUTH_PLUGIN_ERR,
                "the server asks for the password in clear text, but the connection is not encrypted",
            )
        connection.write_packet(connection.password + b"\0")
        answer = read_packet(connection)
        answer.check_error()
        return answer


class _Dialog:
    """A dialog with a person, which is unsupported."""

    def __init__(self, connection: Any) -> None:
        pass

    def authenticate(self, packet: Any) -> NoReturn:
        raise pymysql.OperationalError(
            CR.CR_AUTH_PLUGIN_CANNOT_LOAD, "the account authenticates by a dialog, which is unsupported"
        )


PLUGINS: Mapping[str, type[_ClearText] | type[_Dialog]] = MappingProxyType(
    {"mysql_clear_password": _ClearText, "dialog": _Dialog}
)
"""PyMySQL's ``auth_plugin_map``: these replace its own methods."""


def refusal(config: EndpointConfig, error: Exception, number: int, reason: str) -> SourceError | None:
    """The error for a user whom the server refused: ``TM-MY-002``, or ``TM-MY-003`` where it wants an encrypted
    connection; None for an error of another kind. ``number`` and ``reason`` are those of ``error_of``.
    """
    if number == _SECURE_TRANSPORT_REQUIRED:
        return SourceError(
            "TM-MY-003",
            f"{config.where} accepts only encrypted connections: {reason}",
            remedy="Set ssl_mode: REQUIRED.",
        )
    # Without a number: PyMySQL does not support what the server asks for, or lacks a package (RuntimeError).
    unfollowed = not number and isinstance(error, (pymysql.OperationalError, RuntimeError))
    if number not in _REFUSED and not unfollowed:
        return None
    return SourceError(
        "TM-MY-002",
        f"{config.where} does not let user {config.user} in: {reason}",
        remedy=_METHOD_REMEDY if unfollowed else _remedy(config, number),
    )


def expired(number: int, where: str, user: str) -> SourceError | None:
    """``TM-MY-002`` for a user with an expired password, who may only change it; None for other numbers."""
    return SourceError("TM-MY-002", where, remedy=_expired_remedy(user)) if number in _EXPIRED else None


def _remedy(config: EndpointConfig, number: int) -> str | None:
    """The remedy; None for that of the code."""
    if number in _EXPIRED:
        return _expired_remedy(config.user)
    if number in _LOCKED:
        return f"Run, as an administrator: {_alter(config.user)} ACCOUNT UNLOCK; {_host_of(config.user)}"
    if number in _BLOCKED:
        return (
            f"Correct the password. Then run, as an administrator: {_alter(config.user)} ACCOUNT UNLOCK; (MariaDB: "
            f"FLUSH PRIVILEGES;) {_host_of(config.user)}"
        )
    if number == _SOCKET:
        return _SOCKET_REMEDY
    if number in _METHOD:
        return _METHOD_REMEDY
    # An account that requires TLS or a certificate gives the same error as a wrong password.
    if config.ssl_mode in ("DISABLED", "PREFERRED"):
        return (
            f"{_ACCESS_REMEDY}If the account or the server requires encrypted connections (REQUIRE SSL), set "
            "ssl_mode: REQUIRED."
        )
    if config.ssl_cert is None:
        return f"{_ACCESS_REMEDY}If the account requires a client certificate (REQUIRE X509), set ssl_cert and ssl_key."
    return None


def _expired_remedy(user: str) -> str:
    return (
        f"Run, as an administrator: {_alter(user)} IDENTIFIED BY 'NEW PASSWORD'; and, since a program cannot change "
        f"its password: {_alter(user)} PASSWORD EXPIRE NEVER; {_host_of(user)}"
    )


def _alter(user: str) -> str:
    return f"ALTER USER {quoted_account(user, 'HOST')}"


def _host_of(user: str) -> str:
    """The server does not tell a client that it refuses as which account it took it."""
    return f"HOST is the account's host: SELECT host FROM mysql.user WHERE user = {quoted_text(user)};"


def quoted_text(text: str) -> str:
    """A literal in the server's default SQL mode."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def quoted_account(user: str, host: str) -> str:
    """``'user'@'host'``."""
    return f"{quoted_text(user)}@{quoted_text(host)}"
