"""Speaks the capture protocol for MySQL and MariaDB on stdin and stdout."""

import sys
from pathlib import Path

from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.process.connector import main

if __name__ == "__main__":
    sys.exit(main(MysqlDatabase, Path(__file__).with_name("README.md")))
