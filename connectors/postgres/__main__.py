"""Speaks the capture protocol for PostgreSQL on stdin and stdout."""

import sys
from pathlib import Path

from tidemark.captures.process.connector import end_without_driver, main

try:
    from tidemark.captures.postgres.database import PostgresDatabase
except ModuleNotFoundError as error:
    end_without_driver(error)

if __name__ == "__main__":
    sys.exit(main(PostgresDatabase, Path(__file__).with_name("README.md")))
