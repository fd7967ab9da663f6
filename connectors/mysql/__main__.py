"""Speaks the capture protocol for MySQL and MariaDB on stdin and stdout."""

import sys

from captures.connector import main
from captures.mysql.database import MysqlDatabase

if __name__ == "__main__":
    sys.exit(main(MysqlDatabase))
