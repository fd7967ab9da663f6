"""What an object store's failure is to a caller: an ``OSError`` with a text for people, and without a secret."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions

from tidemark.protocol.store.store import StoreUnavailableError

_LONGEST = 300
"""Characters of a reason."""

_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,200})</Message>")
_STATUS = re.compile(r"\b(?:status|response)\D{0,20}([45]\d\d)\b", re.IGNORECASE)
_BEHIND_THE_END = "416"
"""The status of a range that begins behind the end of its object (RFC 9110)."""

_PASSING = frozenset({"408", "429", "500", "502", "503", "504"})
"""Statuses of a request that may be made again."""

_INTERRUPTED = "HTTP error: "
"""What a text of obstore's has where there was no answer, or not all of one."""

_URL = re.compile(r"\b[a-z]+://[^\s)\"']+", re.IGNORECASE)
_CAUSE = re.compile(
    r"(?:Connection refused|timed out|(?<!_)timeout|dns error|connection reset|connection closed)", re.IGNORECASE
)


@contextmanager
def as_os_errors(where: str) -> Iterator[None]:
    """Turns what obstore raises into the errors of ``Store``.

    Args:
        where: What the request was about, for people.
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", where) from None
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
        raise FileExistsError(errno.EEXIST, "it exists already", where) from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, f"the store refuses it: {_reason(str(error))}", where) from None
    except (exceptions.BaseError, OSError, ValueError) as error:
        behind = _STATUS.search(str(error))
        number = errno.ERANGE if behind is not None and behind[1] == _BEHIND_THE_END else errno.EIO
        if _INTERRUPTED in str(error):
            number = errno.ECONNABORTED
        passes = number == errno.ECONNABORTED or (behind is not None and behind[1] in _PASSING)
        raise (StoreUnavailableError if passes else OSError)(number, _reason(str(error)), where) from None


def is_interrupted(error: BaseException) -> bool:
    """Whether there was no answer, or not all of one: nobody knows what became of the request."""
    return isinstance(error, OSError) and error.errno == errno.ECONNABORTED


def _reason(text: str) -> str:
    """The reason in a text of obstore's, which may have an answer's body, and an address with a signature."""
    parts = [
        *(f"status {found}" for found in _STATUS.findall(text)[:1]),
        *(found[1] for found in (_CODE.search(text), _MESSAGE.search(text)) if found),
        *(found[0] for found in (_CAUSE.search(text),) if found),
    ]
    if parts:
        return ": ".join(dict.fromkeys(parts))
    first = _URL.sub("the store", text.splitlines()[0] if text else "no reason was given")
    return first[:_LONGEST]
