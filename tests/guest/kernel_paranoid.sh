#!/bin/bash
# SPDX-License-Identifier: MIT
# Which kernel events root and an ordinary user may record at each level of
# kernel.perf_event_paranoid: the table of waymark-kernel-events(7). In the guest, whose kernel is
# Debian's: other kernels know no 3 and take it for 2; 4 is as 3.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/../record_setup.bash"

[ -n "${WAYMARK_GUEST:-}" ] ||
	skip "it changes the level of the whole machine, so in the guest alone: make guest"
cp "$WAYMARK_BUILD/tests/targets/switching" . || skip "not built"
chmod 755 .
for user in root nobody; do
	mkdir -m 0700 "run_$user" && chown "$user" "run_$user"
done

# by USER ARGUMENT...: what it prints is in ./said and ./words; the trace in run_USER/trace
by()
{
	local user=$1
	shift
	rm -rf "run_$user/trace"
	XDG_RUNTIME_DIR=$folder/run_$user timeout -k 2 60 runuser -u "$user" -- \
		"$waymark" record -o "run_$user/trace" "$@" >said 2>words </dev/null
}

# has USER ARGUMENT...
has() { by "$@" || fail "$level: $*: $(cat words)"; }

# refused USER WORDS ARGUMENT...
refused()
{
	local user=$1 text=$2
	shift 2
	by "$user" "$@" && fail "$level: $user may record $*"
	grep -qF -e "$text" words || fail "$level: $user: $*: no '$text' in: $(cat words)"
	[ ! -s said ] || fail "$level: $user: $*: the program ran"
}

for level in -1 0 1 2 3 4; do
	echo $level >/proc/sys/kernel/perf_event_paranoid || fail "$level"
	program=(./switching 1 10)
	has root -e switch -e fault -e count:task-clock -e tracepoint:sched:sched_switch "${program[@]}"
	if [ $level -gt 2 ]; then
		refused nobody perf_event_paranoid -e switch "${program[@]}"
		refused nobody perf_event_paranoid -e fault "${program[@]}"
		continue
	fi
	has nobody -e switch -e fault -e sample:cpu-clock -e count:page-faults "${program[@]}"
	if [ $level -eq 2 ]; then
		grep -q "user space alone" words || fail "$level: nothing says what is left out: $(cat words)"
		refused nobody "context-switches happens in the kernel alone" \
			-e count:context-switches "${program[@]}"
	else
		has nobody -e count:context-switches "${program[@]}"
		! grep -q "user space alone" words || fail "$level: $(cat words)"
	fi
	if [ $level -gt 0 ]; then
		refused nobody perf_event_paranoid -a -e switch --for 1s
	else
		has nobody -a -e switch --for 200ms
	fi
	refused nobody /sys/kernel/tracing -e tracepoint:sched:sched_switch "${program[@]}"
done
exit $failed
