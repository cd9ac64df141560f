#!/bin/bash
# SPDX-License-Identifier: MIT
# What a hit asks of its thread (waymark-limits(7)): no system call, also the first of a thread,
# deep on its stack, on another stack, and in a signal's handler that came in the middle of one; and
# at most 1 KiB of its stack.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cc -O1 -g -I"$source_dir/include" "$source_dir/tests/targets/record/confined.c" -o confined -lpthread || exit 1
timeout 20 ./confined first >alone || skip "$(cat alone)"

# reported KEY: what report says
reported()
{
	"$waymark" report --json t 2>/dev/null | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}

asked=ret

# lived MODE LOST OPTION...: the program ends as without us; its markers, calls and returns are
# recorded, or counted as lost where LOST is "some"
lived()
{
	local mode=$1 lost=$2 emitted recorded
	shift 2
	rm -rf t
	timeout 60 "$waymark" record "$@" -e 'marker:confined:*' -e "func:called/$asked/" -o t -- ./confined "$mode" >out 2>words
	expect "$mode: status" $? 0
	emitted=$(sed -n 's/^hits //p' out)
	emitted=$((${emitted:-0} * 3))
	recorded=$(reported recorded)
	[ "$emitted" -gt 0 ] || fail "$mode: $(cat out words)"
	expect "$mode: recorded and lost" $((recorded + $(reported discarded))) "$emitted"
	[ "$lost" = some ] || expect "$mode: recorded" "$recorded" "$emitted"
}

for mode in first many deep coroutine; do
	lived $mode none
done
for mode in signal_same signal_outer signal_inner; do
	lived $mode some --buffer 64M
done
lived many some --policy block --buffer 64K

# Strings, which the kernel reads for a hit, end before the filter comes.
asked=arg2:str,ret
for mode in first many deep; do
	lived $mode none
done
expect "a string under a filter" "$("$waymark" dump t | grep -c 'called.*unreadable')" "$(sed -n 's/^hits //p' out)"
asked=ret

# ---- its stack ----

lived stack none
awk '$1 == "stack" { base = $2 == 0 ? $4 : base; if ($4 > most) most = $4 }
	END { exit !(most > base && most - base <= 1024) }' out || fail "more than 1 KiB of the stack: $(cat out)"
exit $failed
