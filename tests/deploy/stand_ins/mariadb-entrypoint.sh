#!/bin/sh
# As the official image does: makes the server at first, runs what is in initdb.d over its socket, then serves.
set -eu
if [ ! -e /var/lib/mysql/mysql ]; then
  chown mysql /var/lib/mysql
  mariadb-install-db --user=mysql --skip-test-db >/dev/null
  mariadbd --user=mysql --skip-networking &
  until mariadb-admin ping >/dev/null 2>&1; do sleep 0.2; done
  mariadb --execute="CREATE DATABASE $MARIADB_DATABASE; ALTER USER root@localhost IDENTIFIED BY '$MARIADB_ROOT_PASSWORD'"
  for script in /docker-entrypoint-initdb.d/*.sh; do [ ! -e "$script" ] || "$script"; done
  mariadb-admin --user=root --password="$MARIADB_ROOT_PASSWORD" shutdown
  wait
fi
exec mariadbd --user=mysql --bind-address=0.0.0.0 "$@"
