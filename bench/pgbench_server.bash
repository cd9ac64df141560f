# SPDX-License-Identifier: MIT
# Shared by benches that measure a PostgreSQL server: a server of our own, and turns of pgbench.
# $waymark, $rounds and $seconds are set. Exit status 77, with the reason, where it can't run.
# shellcheck shell=bash disable=SC2034,SC2154 # what is set here is used there, and vice versa
# shellcheck source=tests/postgres.bash
. "$(dirname "${BASH_SOURCE[0]}")/../tests/postgres.bash"

skip() { echo "$*"; exit 77; }

work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-pgbench.XXXXXX")
tracer=
finish() {
	[ -z "$tracer" ] || { kill -TERM "$tracer" && wait "$tracer"; } 2>/dev/null
	pg_stop
	rm -rf "$work"
}
trap finish EXIT
pg_find >"$work/why" || skip "$(cat "$work/why")"
chmod 755 "$work"
# the server's user may not be let into the build folder
agent=${WAYMARK_AGENT:-$(dirname "$waymark")/../inside/libwaymark-agent.so}
cp "$agent" "$work/libwaymark-agent.so" || exit 1
export WAYMARK_AGENT=$work/libwaymark-agent.so

pg_sync=${WAYMARK_PGBENCH_SYNC:+on}
pg_start 20 >"$work/why" || skip "no server: $(cat "$work/why")"
parent=$(head -n 1 "$pg_folder/data/postmaster.pid")

# Clock ticks of all the server's processes that have ended.
server_ticks() { sed 's/.*) //' "/proc/$parent/stat" | awk '{ print $14 + $15 }'; }

# turn WAY: a line "TPS TICKS_PER_TRANSACTION" in $work/WAY, while that is as it is
turn()
{
	local before after tps done_now
	before=$(server_ticks)
	pg_run pgbench -n -c 20 -j 2 -T "$seconds" >"$work/pgbench" 2>&1 ||
		{ tail -n 3 "$work/pgbench" >&2; return 1; }
	for _ in $(seq 100); do
		[ "$(pgrep -cP "$parent")" -gt 4 ] || break
		sleep 0.1
	done
	after=$(server_ticks)
	grep -q '^tps' "$work/pgbench" || { tail -n 3 "$work/pgbench" >&2; return 1; }
	tps=$(awk '/^tps/ { print $3 }' "$work/pgbench")
	done_now=$(awk '/actually processed/ { print $6 }' "$work/pgbench")
	awk "BEGIN { print $tps, ($after - $before) / $done_now }" >>"$work/$1"
}

median()
{
	sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
