#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What recording costs PostgreSQL: pgbench.sh WAYMARK. pgbench's twenty clients work on a server of our
# own in turns, unprobed, recorded by Waymark, counted by bpftrace: transaction, query and lwlock probes.
#
#	probe.pgbench_slowdown        transactions a second without over those with, the median of the
#	                              rounds; of 1.05, 5 % are lost
#	probe.pgbench_slowdown.cpu    the server's CPU time for a transaction, with over without
#	probe.pgbench_event_ns        that difference, for one of the transaction's events
#	probe.pgbench_slowdown.bpftrace, .bpftrace_cpu    likewise; bpftrace only counts
#	probe.pgbench_slowdown.semaphores, .semaphores_cpu    likewise, with nothing placed and the probes'
#	                              semaphores raised: what the server does of its own accord once somebody
#	                              listens, and no tracer can spare it
#
# The server doesn't wait for the disk (fsync and synchronous_commit are off), so that nothing hides what
# hits cost; WAYMARK_PGBENCH_SYNC=1 leaves both as PostgreSQL's own settings have them.
#
# Exit status 77, with the reason, where it can't run.
set -u
waymark=$(realpath "$1")
rounds=${WAYMARK_BENCH_RUNS:-5}
seconds=${WAYMARK_PGBENCH_SECONDS:-3}
# shellcheck source=bench/pgbench_server.bash
. "$(dirname "$0")/pgbench_server.bash"
probes=(transaction__\* query__\* lwlock__\*)

by_waymark()
{
	local specs=() probe pids
	pids=$(pg_pids) # before our own backends start and end
	for probe in "${probes[@]}"; do
		specs+=(-e "usdt:postgresql:$probe")
	done
	rm -rf "$work/trace"
	"$waymark" record --json -o "$work/trace" "${specs[@]}" -p "$pids" >"$work/recorded" 2>"$work/words" &
	tracer=$!
	# it records once there is a stream: of a backend that comes after all are attached to
	for _ in $(seq 50); do
		pg_run psql -Atc "select 1" >/dev/null 2>&1
		[ "$(find "$work/trace" -type f 2>/dev/null | wc -l)" -lt 2 ] || break
		kill -0 $tracer 2>/dev/null || { tail -n 2 "$work/words" >&2; tracer=; return 1; }
		sleep 0.2
	done
	turn waymark || return 1
	kill -TERM $tracer # a shell has its jobs ignore SIGINT
	wait $tracer || { tail -n 2 "$work/words" >&2; tracer=; return 1; }
	tracer=
	sed -n 's/.*"recorded":\([0-9]*\),"discarded":\([0-9]*\).*/\1 \2/p' "$work/recorded" >>"$work/events"
}

by_bpftrace()
{
	local program='' probe
	for probe in "${probes[@]}"; do
		program+="${program:+,}usdt:$pg_bin/postgres:postgresql:$probe"
	done
	bpftrace -e "$program { @[probe] = count(); }" >"$work/counted" 2>&1 &
	tracer=$!
	for _ in $(seq 100); do
		grep -q '^Attaching' "$work/counted" && break
		sleep 0.1
	done
	sleep 1
	turn bpftrace || return 1
	kill -TERM $tracer
	wait $tracer
	tracer=
	grep -q 'transaction__start' "$work/counted" || return 1
}

# Where the file has our probes' semaphores.
pg_semaphores()
{
	readelf -n "$pg_bin/postgres" | awk '/^ *Name: / { name = $2 }
		/Semaphore: / { at = $NF } /Arguments:/ && name ~ /^(transaction|query|lwlock)__/ { print at }' | sort -u
}

# semaphores VALUE: in all of the server's processes; new ones have their parent's
semaphores()
{
	local pid base at
	for pid in $(pg_pids | tr , ' '); do
		base=$(awk '/ 00000000 .*\/postgres$/ { sub(/-.*/, ""); print; exit }' "/proc/$pid/maps") || return 1
		for at in $(pg_semaphores); do
			printf '%b' "\\x0$1\\x00" | dd of="/proc/$pid/mem" bs=2 count=1 seek=$((16#$base + at)) \
				oflag=seek_bytes conv=notrunc status=none || return 1
		done
	done
}

by_nobody()
{
	local status=0
	semaphores 1 && turn semaphores || status=1
	semaphores 0 || status=1
	return $status
}

# compare WAY SUFFIX: its figures, round by round beside those without
compare()
{
	[ -s "$work/$1" ] || return
	paste -d' ' "$work/none" "$work/$1" >"$work/both"
	echo "figure probe.pgbench_slowdown$2 $(awk '{ print $1 / $3 }' "$work/both" | median) ratio"
	echo "figure probe.pgbench_slowdown${2:-.}${2:+_}cpu $(awk '{ print $4 / $2 }' "$work/both" | median) ratio"
}

with_bpftrace=0
if [ "$(id -u)" -eq 0 ] && command -v bpftrace >/dev/null; then
	with_bpftrace=1
fi
with_semaphores=0
if [ -n "$(pg_semaphores)" ]; then
	with_semaphores=1
fi
turn warm || exit 1
for _ in $(seq "$rounds"); do
	turn none || exit 1
	by_waymark || exit 1
	if [ $with_semaphores = 1 ] && ! by_nobody; then
		with_semaphores=0
		rm -f "$work/semaphores"
	fi
	if [ $with_bpftrace = 1 ] && ! by_bpftrace; then
		with_bpftrace=0
		rm -f "$work/bpftrace"
	fi
done
[ -z "$(pg_complaints)" ] || { pg_complaints >&2; exit 1; }
[ "$(pg_books)" = t ] || { echo "pgbench's books don't balance" >&2; exit 1; }
compare waymark ''
compare bpftrace .bpftrace
compare semaphores .semaphores
paste -d' ' "$work/none" "$work/waymark" "$work/events" | awk -v seconds="$seconds" -v hz="$(getconf CLK_TCK)" \
	'{ print ($4 - $2) * 1e9 / hz * $3 * seconds / $5 }' >"$work/event_ns"
echo "figure probe.pgbench_event_ns $(median <"$work/event_ns") ns"
echo "figure probe.pgbench_tps $(cut -d' ' -f1 "$work/none" | median) 1/s"
echo "figure probe.pgbench_events_s $(awk -v s="$seconds" '{ print $1 / s }' "$work/events" | median) 1/s"
echo "figure probe.pgbench_discarded $(awk '{ print $2 }' "$work/events" | median) events"
