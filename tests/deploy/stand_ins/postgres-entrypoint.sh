#!/bin/sh
# As the official image does: makes the server at first, runs what is in initdb.d over its socket, then serves.
set -eu
data=/var/lib/postgresql/data
bin=$(echo /usr/lib/postgresql/*/bin)
if [ ! -e "$data/PG_VERSION" ]; then
  install --directory --owner=postgres --mode=700 "$data"
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  chown postgres /tmp/password
  setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/initdb" --pgdata="$data" --encoding=UTF8 --locale=C.UTF-8 --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
  echo "host replication all all scram-sha-256" >>"$data/pg_hba.conf"
  setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/pg_ctl" --pgdata="$data" --options="-c listen_addresses= -c wal_level=logical" --wait start >/dev/null
  setpriv --reuid=postgres --regid=postgres --clear-groups psql --username=postgres --command="CREATE DATABASE \"$POSTGRES_DB\""
  for script in /docker-entrypoint-initdb.d/*.sh; do
    [ ! -e "$script" ] || setpriv --reuid=postgres --regid=postgres --clear-groups "$script"
  done
  setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/pg_ctl" --pgdata="$data" --wait stop >/dev/null
fi
shift
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$data" -c listen_addresses='*' "$@"
