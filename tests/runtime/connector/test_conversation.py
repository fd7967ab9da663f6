"""How a talk with a connector ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.process import ProcessConnector
from tidemark.runtime.connector.secrets import Redactor

ENDS_WITH_AN_ERROR = """
trap '' TERM
echo ready
cat >/dev/null
echo '{"level": "error", "message": "stdin ended"}' >&2
exit 1
"""


@pytest.mark.parametrize(("why", "told"), [(KeyboardInterrupt, []), (RuntimeError, ["stdin ended"])])
def test_what_a_connector_says_to_its_interruption_is_no_failure(
    tmp_path: Path, why: type[BaseException], told: list[str]
) -> None:
    logged: list[LogLine] = []
    running = ProcessConnector(["sh", "-c", ENDS_WITH_AN_ERROR], tmp_path).start({})
    with pytest.raises(why), Conversation("shell", running, Redactor(()), logged.append) as talk:
        assert os.read(talk.stdout, 16) == b"ready\n"
        raise why
    assert [line.message for line in logged] == told
