#!/bin/bash
# SPDX-License-Identifier: MIT
# A recording of all CPUs while one goes and comes, under load, and while the wall clock jumps: the
# CPU has its events again within 100 ms, in the same trace. WAYMARK_ROUNDS: how often; 10.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/../record_setup.bash"

online=/sys/devices/system/cpu/cpu1/online
[ "${WAYMARK_TEST_CPUS:-}" = 1 ] && [ -w $online ] || skip "no CPU may be taken offline here"
rounds=${WAYMARK_ROUNDS:-10}
echo 1 >$online

# load, and something that is moved to the CPU that comes
start sh -c 'while :; do :; done'
"$waymark" record --json -o trace -a -e sample:cpu-clock/freq=50/ -e switch --for 200s \
	>out 2>words &
recorder=$!
await_recording trace
: >came
for ((round = 1; round <= rounds; round++)); do
	echo 0 >$online
	sleep 0.1 # so that something is missed
	echo 1 >$online
	date +%s%N >>came
	sleep 0.3
done
clock_before=$(date +%s%N)
date -s "+3600 seconds" >jumped
clock_after=$(date +%s%N)
sleep 0.3
kill -TERM $recorder # the shell has its jobs ignore SIGINT
wait $recorder || fail "record: $(cat words)"
grep -q "came online" words || fail "nothing says that a CPU came: $(cat words)"

"$waymark" dump --json --event '[!t]*' trace >events || fail "dump"
python3 - "$clock_before" "$clock_after" <<'END' || fail "CPU 1 came: no events, or late ones"
import bisect, json, statistics, sys
times, all_times = [], []
for line in open("events"):
    x = json.loads(line)
    all_times.append(x["time_ns"])
    if x.get("cpu") == 1:
        times.append(x["time_ns"])
late = []
for came in map(int, open("came")):
    at = bisect.bisect_left(times, came)
    late.append((times[at] - came) / 1e6 if at < len(times) else 1e9)
print("until the CPU's first event, median and maximum of %d in ms: %.1f %.1f" %
      (len(late), statistics.median(late), max(late)))
# the jump of the wall clock is in no time of the trace
span = (max(all_times) - min(all_times)) / 1e9
jumped = (int(sys.argv[2]) - int(sys.argv[1])) / 1e9
sys.exit(statistics.median(late) > 100 or max(late) > 2000 or jumped < 3000 or span > 1000)
END
exit $failed
