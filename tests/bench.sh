#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark bench mechanisms: every row has its figures or its reason, and no hit comes out wrong.
set -uo pipefail
waymark=$WAYMARK_BUILD/cli/waymark
export WAYMARK_AGENT=$WAYMARK_BUILD/agent/libwaymark-agent.so
if [ "$(nm -D "$WAYMARK_AGENT" | grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]; then
	echo "an agent built for a sanitizer can't be loaded into programs that are not"
	exit 77
fi
failed=0
fail() { echo "FAILED: $*"; failed=1; }

table=$(timeout -k 5 100 "$waymark" bench mechanisms -n 2000 --peer 'a peer=echo raw hit 7' \
	--peer 'none=echo it has no time; exit 77' --json) || fail "status $?"
echo "$table"
echo "$table" | python3 -c '
import json, sys
rows = {row["mechanism"]: row for row in json.load(sys.stdin)}
for name, row in rows.items():
    if (row["hit_ns"] is None) == (row["skipped"] is None):
        sys.exit(f"{name} has neither a figure nor a reason, or both")
if rows["a peer"]["hit_ns"] != 7 or rows["none"]["skipped"] != "it has no time":
    sys.exit("the peers are not as they say")
for name, row in rows.items():
    if "kernel" not in name and name != "none" and row["skipped"]:
        sys.exit(f"{name} was skipped: " + row["skipped"])
' || fail "the table"

"$waymark" bench mechanisms --peer nonsense >/dev/null 2>&1
[ $? -eq 2 ] || fail "a peer without a command was taken"
"$waymark" bench nonsense >/dev/null 2>&1
[ $? -eq 2 ] || fail "nonsense was measured"
exit $failed
