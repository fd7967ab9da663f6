"""Speaks the capture protocol for MySQL and MariaDB on stdin and stdout."""

import sys
from pathlib import Path

from tidemark.captures.process.connector import end_without_driver, main

try:
    from tidemark.captures.mysql.database import MysqlDatabase
except ModuleNotFoundError as error:
    end_without_driver(error)

if __name__ == "__main__":
    sys.exit(main(MysqlDatabase, Path(__file__).with_name("README.md")))
