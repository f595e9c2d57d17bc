# A MariaDB of its own below $scratch: no network, no configuration of this machine, ended by its process id.

database_pid=

start_database() {
    need mariadbd mariadb mariadb-install-db mariadb-dump
    local data=$scratch/data user
    user=$(id -un)
    mariadb-install-db --no-defaults --datadir="$data" --user="$user" --auth-root-authentication-method=normal \
        --skip-test-db >"$scratch/install.log" 2>&1 || fail "mariadb-install-db failed: $(tail -n 3 "$scratch/install.log")"
    # A socket's path has to be short, and $scratch may not be.
    sockets=$(mktemp -d)
    socket=$sockets/db.sock
    mariadbd --no-defaults --datadir="$data" --user="$user" --socket="$socket" --skip-networking \
        --innodb-flush-log-at-trx-commit=0 >"$scratch/database.log" 2>&1 &
    database_pid=$!
    local waited=0
    until sql mysql -e 'SELECT 1' >/dev/null 2>&1; do
        kill -0 "$database_pid" 2>/dev/null || fail "MariaDB ended: $(tail -n 3 "$scratch/database.log")"
        [ "$waited" -lt 300 ] || fail "MariaDB does not answer after 30 s"
        waited=$((waited + 1))
        sleep 0.1
    done
}

# sql DATABASE [ARGUMENT...]
sql() { mariadb --no-defaults --socket="$socket" --user=root --default-character-set=utf8mb4 "$@"; }

# dump DATABASE FILE: as a person would make it.
dump() { mariadb-dump --no-defaults --socket="$socket" --user=root --default-character-set=utf8mb4 --single-transaction "$1" >"$2"; }

stop_database() {
    if [ -n "$database_pid" ]; then
        kill "$database_pid" 2>/dev/null || true
        wait "$database_pid" 2>/dev/null || true
        database_pid=
        rm -rf "$sockets"
    fi
}
