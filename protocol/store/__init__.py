"""Where a change log and kept tables lie: a directory or an object store, behind one small interface."""

from tidemark.protocol.error_codes import register
from tidemark.protocol.store.error_codes import CODES
from tidemark.protocol.store.store import Entry, Store, StoreUnavailableError, Upload

__all__ = ["Entry", "Store", "StoreUnavailableError", "Upload"]

register(CODES)
