#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark stat -a while CPUs go and come: each has its events again at the next look, and counts.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/../folder_setup.bash"

cp "$WAYMARK_BUILD/cli/waymark" . || skip "not built"
online=/sys/devices/system/cpu/cpu1/online
[ "${WAYMARK_TEST_CPUS:-}" = 1 ] && [ -w $online ] || skip "no CPU may be taken offline here"
echo 1 >$online
count=$(getconf _NPROCESSORS_ONLN)

./waymark stat -j -I 50ms -a -e cpu-clock --for 120s >rows 2>err &
counting=$!
trap 'kill $counting 2>/dev/null; rm -rf "$folder"' EXIT
await_text rows '"cpus_back":0,'

# came N: a row says so
came() { grep -q "\"cpus_back\":$1," rows; }

has_more() { [ "$(wc -l <rows)" -gt "$1" ]; }

# more_rows: until some have come
more_rows()
{
	local had
	had=$(wc -l <rows)
	await has_more $((had + 16)) # two an interval
}

rounds=20
: >took_ms
for ((round = 1; round <= rounds; round++)); do
	echo 0 >$online
	more_rows # and so it is noticed
	echo 1 >$online
	began=$(date +%s%N)
	await came $round || fail "round $round: the CPU has no events: $(tail -n 1 rows)"
	echo $((($(date +%s%N) - began) / 1000000)) >>took_ms
done
more_rows
kill -TERM $counting
wait $counting
echo "until a row says so, median and maximum of $rounds in ms: $(sort -n took_ms | sed -n "$((rounds / 2))p; \$p" | tr '\n' ' ')"

# all CPUs count in the last intervals, the one that came back too
python3 - "$count" <<'END' || fail "a CPU that came back does not count: $(tail -n 4 rows)"
import json, sys
rows = [json.loads(line) for line in open("rows")]
last = [row for row in rows if row["type"] == "counted"][-6:-1]
counted = sum(row["count"] for row in last[1:]) / 1e9
sys.exit(not counted > (int(sys.argv[1]) - 0.5) * (last[-1]["at_ns"] - last[0]["at_ns"]) / 1e9)
END
exit $failed
