"""What it means that delta-rs failed, and what it is asked for again.

Its client of an object store tries a request again that was not carried out. It does not where an answer broke off.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from deltalake.exceptions import DeltaError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from tidemark.protocol.errors import SparkError
from tidemark.protocol.store.opening import RETRIED
from tidemark.spark_sink.tables.store_place import StorePlace

T = TypeVar("T")

_BROKE_OFF = re.compile("HTTP error|error sending request")
"""What delta-rs says of an answer that did not come, or not as a whole."""

_PASSES = re.compile(rf"after \d+ retries|{_BROKE_OFF.pattern}")
"""What delta-rs says of a store that has not answered, however often it was asked."""

_again = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, DeltaError | OSError) and _broke_off(error)),
    stop=stop_after_delay(RETRIED),
    wait=wait_random_exponential(0.2, max=5.0),
    reraise=True,
)


def ask_again(ask: Callable[[], T]) -> T:
    """Asks for what may be asked for again, whatever became of it, where the answer broke off."""
    return _again(ask)


def failed(place: StorePlace, error: DeltaError | OSError) -> SparkError:
    """What an error of delta-rs comes to: ``TM-SPK-015``, or ``TM-SPK-026`` for what may pass by itself."""
    passes = place.directory is None and _PASSES.search(str(error))
    return SparkError("TM-SPK-026" if passes else "TM-SPK-015", f"{place}: {reason_of(error)}")


def _broke_off(error: BaseException) -> bool:
    return _BROKE_OFF.search(str(error)) is not None


def reason_of(error: Exception) -> str:
    """The message of delta-rs in one line. It may be a tree with colours, structures, a stack, and a store's answer."""
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    # What an object store says, in XML, may have the id of a key in it, and what was signed.
    plain = re.sub(r"<\?xml.*?(?:<Code>([^<]*)</Code>.*|$)", r"\1", plain, flags=re.DOTALL)
    lines = [line.strip(" :") for line in plain.splitlines() if line.strip() and not re.match(r"\s*(\d+:|at) ", line)]
    told = re.sub(r'\w+ \{[^{}]*message: "([^"]*)" \}', r"\1", ": ".join(lines))
    return re.sub(r" \w+ \{.*", "", told)
