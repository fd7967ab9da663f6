#!/bin/sh
# Run once, when the server is made: a table, and the user that captures it.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$SHOP_PASSWORD" --username=postgres --dbname=shop <<'SQL'
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL, total numeric(10, 2) NOT NULL);
INSERT INTO orders (item, total) SELECT 'item ' || n, n FROM generate_series(1, 1000) n;
CREATE ROLE cdc LOGIN REPLICATION PASSWORD :'password';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO cdc;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO cdc;
CREATE PUBLICATION tidemark_shop FOR ALL TABLES WITH (publish_via_partition_root = true);
SQL
