"""Speaks the capture protocol for PostgreSQL on stdin and stdout."""

import sys
from pathlib import Path

from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.process.connector import main

if __name__ == "__main__":
    sys.exit(main(PostgresDatabase, Path(__file__).with_name("README.md")))
