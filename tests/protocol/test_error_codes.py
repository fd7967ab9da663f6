"""Errors and their codes: what an error carries, and where it has that from."""

from __future__ import annotations

import pickle

import pytest

from tidemark.protocol import errors
from tidemark.protocol.error_codes import CODES, REGISTERED, ErrorCode, Policy, register
from tidemark.protocol.errors import ConnectorError, ProtocolError, TidemarkError, UsageError


def test_a_code_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="TM-PRO-001 is registered twice"):
        register(CODES)


def test_an_error_says_its_code_and_falls_back_on_the_remedy_of_its_code() -> None:
    error = ProtocolError("TM-PRO-001", "a request line is not JSON")
    assert str(error) == "TM-PRO-001: a request line is not JSON"
    assert error.remedy == REGISTERED["TM-PRO-001"].remedy
    assert ProtocolError("TM-PRO-001", "x", remedy="Do this.").remedy == "Do this."


def test_an_unknown_code_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(KeyError):
        ProtocolError("TM-PRO-999", "x")


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(UsageError("TM-LOG-001", "no log here", remedy="Do this.")))
    assert type(error) is UsageError
    assert (error.code, error.message, error.remedy) == ("TM-LOG-001", "no log here", "Do this.")
    entry = ErrorCode("ACME-7", "The licence has expired", Policy.MANUAL, "Renew it.", "")
    assert pickle.loads(pickle.dumps(ConnectorError(entry, "no licence"))).entry == entry


def test_only_wrong_usage_exits_with_two() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TidemarkError)]
    assert {kind.__name__: kind.exit_status for kind in kinds} == {
        kind.__name__: 2 if kind is UsageError else 1 for kind in kinds
    }
