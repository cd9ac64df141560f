#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The live loops under LTTng-UST: run.sh LOOP, printing LOOP's raw lines. A session daemon of our own
# runs in a folder of its own; root's would be the system's, so root steps down to nobody. The session
# is a flight recorder: overwrite, nothing is drained. Exit status 77, with the reason, where it can't.
set -u
loop=$1

skip() { echo "$*"; exit 77; }

command -v lttng-sessiond >/dev/null || skip "lttng-tools is not installed"
[ -x "$loop" ] || skip "LTTng-UST is not installed"

as=()
home=$(mktemp -d "${TMPDIR:-/tmp}/waymark-lttng.XXXXXX")
if [ "$(id -u)" -eq 0 ]; then
	command -v setpriv >/dev/null || skip "setpriv is not installed"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	cp "$loop" "$home/loop"
	chmod 755 "$home/loop"
	chown -R 65534:65534 "$home"
	loop=$home/loop
fi
export LTTNG_HOME=$home HOME=$home
daemon=

finish() {
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null
	rm -rf "$home"
}
trap finish EXIT

"${as[@]}" lttng-sessiond --no-kernel >"$home/log" 2>&1 &
daemon=$!
for _ in $(seq 50); do
	"${as[@]}" lttng --no-sessiond list >/dev/null 2>&1 && break
	sleep 0.1
done

control() { "${as[@]}" lttng --no-sessiond "$@" >>"$home/log" 2>&1 || skip "lttng $1 failed: $(tail -n1 "$home/log")"; }

control create waymark-bench --snapshot --output="$home/trace"
control enable-channel --userspace --overwrite --subbuf-size=1M --num-subbuf=4 bench
control enable-event --userspace --channel=bench 'waymark_bench:*'
control start
# Arming as its tool does it, which asks the daemon, which asks the program: the time of the command.
start=$(date +%s%N)
control disable-event --userspace --channel=bench 'waymark_bench:*'
control enable-event --userspace --channel=bench 'waymark_bench:*'
echo "raw arm $((($(date +%s%N) - start) / 2000))"
"${as[@]}" "$loop" 1e6 || skip "the loop failed"
control snapshot record
# What was recorded last must be there, or the figures mean nothing.
if command -v babeltrace2 >/dev/null; then
	"${as[@]}" babeltrace2 "$home/trace" 2>/dev/null | head -n1 | grep -q waymark_bench ||
		skip "LTTng recorded nothing"
fi
control destroy
