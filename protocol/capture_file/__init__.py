"""The capture file: one YAML file that says what to capture, with which connector, and where to.

Importing this needs no YAML reader; reading a file does.
"""

from tidemark.protocol.capture_file.error_codes import CODES
from tidemark.protocol.capture_file.metrics_entry import MetricsEntry
from tidemark.protocol.capture_file.model import CaptureFile, CommitEntry, ConnectorEntry, LimitsEntry, TableEntry
from tidemark.protocol.capture_file.reading import mistakes_in, read_capture_file
from tidemark.protocol.capture_file.spark_entry import FoldEntry, SparkEntry
from tidemark.protocol.capture_file.store_entry import StoreEntry
from tidemark.protocol.error_codes import register

__all__ = [
    "CaptureFile",
    "CommitEntry",
    "ConnectorEntry",
    "FoldEntry",
    "LimitsEntry",
    "MetricsEntry",
    "SparkEntry",
    "StoreEntry",
    "TableEntry",
    "mistakes_in",
    "read_capture_file",
]

register(CODES)
