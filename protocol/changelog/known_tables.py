"""The tables of a capture when it was last opened, as they were discovered then.

``LOG/tables.json`` holds ``{"tables": [...]}``, with the bindings of ``discovered``. A table has an entry before it has
an event in the log.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from tidemark.protocol.errors import ChangeLogError, ProtocolError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Discovered, DiscoveredBinding
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore

FILE = "tables.json"


def known_tables(log: Store | Path) -> list[DiscoveredBinding]:
    """The tables of the change log in a store or a directory; none if the capture was never opened.

    Raises:
        ChangeLogError: ``TM-LOG-002`` the file is not one of ours.
    """
    store = log if isinstance(log, Store) else DirectoryStore(log)
    path = store.where(FILE)
    try:
        return message_of(Discovered, {"bindings": orjson.loads(store.read(FILE))["tables"]}).bindings
    except (FileNotFoundError, NotADirectoryError):
        return []  # Other modules report what is wrong with the folder.
    except (OSError, ValueError, KeyError, TypeError, ProtocolError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not list the tables of a capture"
        raise ChangeLogError(
            "TM-LOG-002",
            f"{path} cannot be read: {reason}",
            remedy=f"Remove {path}. Tables that are missing from the source now are then forgotten.",
        ) from None
