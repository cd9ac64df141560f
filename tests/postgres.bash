# SPDX-License-Identifier: MIT
# A PostgreSQL server of our own for tests, benches and the demo: in a folder of its own, on a socket of
# its own, no network, nothing of the system's. Root becomes the user postgres, or an unprivileged one.
# shellcheck shell=bash

pg_bin=
pg_folder=
pg_as=()

# Fills in pg_bin; else prints the reason, status 1.
pg_find()
{
	local bin
	for bin in /usr/lib/postgresql/15/bin /usr/lib/postgresql/*/bin; do
		[ -x "$bin/postgres" ] && [ -x "$bin/initdb" ] && [ -x "$bin/pgbench" ] && pg_bin=$bin && break
	done
	[ -n "$pg_bin" ] || { echo "PostgreSQL is not installed"; return 1; }
	if [ "$(id -u)" -eq 0 ]; then
		local user=nobody
		id postgres >/dev/null 2>&1 && user=postgres
		command -v setpriv >/dev/null || { echo "setpriv is not installed"; return 1; }
		pg_as=(setpriv --reuid "$(id -u $user)" --regid "$(id -g $user)" --clear-groups)
	fi
}

# pg_run COMMAND...: as the server's user, without what we have in the environment
pg_run()
{
	(cd / && exec env -i PATH="$pg_bin:/usr/bin:/bin" HOME="$pg_folder" LC_ALL=C \
		XDG_RUNTIME_DIR="$pg_folder/run" PGHOST="$pg_folder" PGUSER=waymark PGDATABASE=postgres \
		"${pg_as[@]}" "$@")
}

# pg_clients_end PID: a pgbench that pg_run runs ends as if its time (-T) were over; its status
pg_clients_end()
{
	kill -ALRM "$(pgrep -P "$1" -x pgbench || echo "$1")"
	wait "$1"
}

# pg_start SCALE: a server with pgbench's tables, which waits for the disk where pg_sync=on; status 1 and words if it can't be. Then pg_stop.
pg_start()
{
	pg_folder=$(mktemp -d "${TMPDIR:-/tmp}/waymark-pg.XXXXXX") || return 1
	mkdir -m 0700 "$pg_folder/run"
	if [ ${#pg_as[@]} -gt 0 ]; then
		chown -R "${pg_as[2]}:${pg_as[4]}" "$pg_folder" || return 1
	fi
	pg_run initdb -D "$pg_folder/data" -U waymark -A trust -N --no-instructions >"$pg_folder.log" 2>&1 ||
		{ tail -n 3 "$pg_folder.log"; return 1; }
	cat >>"$pg_folder/data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$pg_folder'
		max_connections = 60
		shared_buffers = 128MB
		fsync = ${pg_sync:-off}
		synchronous_commit = ${pg_sync:-off}
		full_page_writes = off
		autovacuum = off
		jit = off
	END
	pg_run pg_ctl -D "$pg_folder/data" -l "$pg_folder/log" -w -t 60 start >"$pg_folder.log" 2>&1 ||
		{ tail -n 3 "$pg_folder.log"; return 1; }
	pg_run pgbench -i -q -s "$1" >"$pg_folder.log" 2>&1 || { tail -n 3 "$pg_folder.log"; return 1; }
}

# The postmaster and all its children, with commas between.
pg_pids()
{
	local parent
	parent=$(head -n 1 "$pg_folder/data/postmaster.pid")
	{ echo "$parent"; pgrep -P "$parent"; } | paste -sd,
}

# Trouble in the server's log, which a probed server must not have either.
pg_complaints()
{
	grep -E 'PANIC|FATAL|terminated by signal|exited with exit code|recovery' "$pg_folder/log"
}

# pgbench's own books: what was added to accounts, tellers, branches and in the history is one sum each.
pg_books()
{
	pg_run psql -Atc "select (select sum(abalance) from pgbench_accounts) = coalesce((select sum(delta)
		from pgbench_history), 0) and (select sum(tbalance) from pgbench_tellers) =
		(select sum(bbalance) from pgbench_branches) and (select sum(tbalance) from
		pgbench_tellers) = (select sum(abalance) from pgbench_accounts)"
}

pg_stop()
{
	[ -n "$pg_folder" ] || return 0
	if [ -e "$pg_folder/data/postmaster.pid" ]; then
		pg_run pg_ctl -D "$pg_folder/data" -m immediate -w -t 20 stop >/dev/null 2>&1
	fi
	rm -rf "$pg_folder" "$pg_folder.log"
	pg_folder=
}
