#!/bin/bash
# SPDX-License-Identifier: MIT
# bench_mechanisms: every row has its figures or its reason, and no hit comes out wrong.
set -uo pipefail
mechanisms=$WAYMARK_BUILD/bench/mechanisms/bench_mechanisms
export WAYMARK_AGENT=$WAYMARK_BUILD/inside/libwaymark-agent.so
if [ "$(nm -D "$WAYMARK_AGENT" | grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]; then
	echo "an agent built for a sanitizer can't be loaded into programs that are not"
	exit 77
fi
failed=0
fail() { echo "FAILED: $*"; failed=1; }

table=$(timeout -k 5 100 "$mechanisms" 2000 'a peer=echo raw hit 7' \
	'none=echo it has no time; exit 77') || fail "status $?"
echo "$table"
echo "$table" | python3 -c '
import sys
rows = dict(line.rstrip("\n").split("\t", 1) for line in sys.stdin)
if len(rows) != 11:
    sys.exit(f"{len(rows)} rows")
for name, row in rows.items():
    _, hit, _, _, skipped = row.split("\t")
    if (hit == "nan") == (skipped == ""):
        sys.exit(f"{name} has neither a figure nor a reason, or both")
    if "kernel" not in name and name != "none" and skipped:
        sys.exit(f"{name} was skipped: " + skipped)
if rows["a peer"].split("\t")[1] != "7.000" or not rows["none"].endswith("\tit has no time"):
    sys.exit("the peers are not as they say")
' || fail "the table"

exit $failed
