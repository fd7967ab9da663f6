"""Speaks the capture protocol for PostgreSQL on stdin and stdout."""

import sys

from captures.connector import main
from captures.postgres.database import PostgresDatabase

if __name__ == "__main__":
    sys.exit(main(PostgresDatabase))
