"""XA transactions in the binary log of MySQL and MariaDB."""
