#!/bin/sh
# Run once, when the server is made: a table, and the user that captures it.
set -eu
mariadb --user=root --password="$MARIADB_ROOT_PASSWORD" support <<SQL
CREATE TABLE tickets (id bigint AUTO_INCREMENT PRIMARY KEY, subject varchar(200) NOT NULL, open boolean NOT NULL);
INSERT INTO tickets (subject, open) SELECT CONCAT('ticket ', seq), seq % 2 FROM seq_1_to_1000;
CREATE USER cdc IDENTIFIED BY '$SUPPORT_PASSWORD';
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO cdc;
GRANT SELECT ON support.* TO cdc;
SQL
