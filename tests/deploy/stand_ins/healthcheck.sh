#!/bin/sh
exec mariadb-admin --host=127.0.0.1 --protocol=tcp ping
