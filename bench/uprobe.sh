#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A hit of a USDT probe by way of the kernel: uprobe.sh LOOP, printing LOOP's raw lines while a tracefs
# uprobe is on waymark_bench:number and records two arguments. Exit status 77, with the reason,
# where it can't run.
set -u
loop=$(realpath "$1")
tracing=/sys/kernel/tracing
group=waymark_bench_$$

skip() { echo "$*"; exit 77; }

[ "$(id -u)" -eq 0 ] || skip "tracing with uprobes needs root"
[ -e $tracing/uprobe_events ] || mount -t tracefs none $tracing 2>/dev/null
[ -e $tracing/uprobe_events ] || skip "this kernel has no uprobes"
[ -x "$loop" ] || skip "sys/sdt.h is not installed"

finish() {
	local ours
	{
		echo 0 >$tracing/events/$group/enable
		ours=$(sed -n "s/^[pr]:\($group\/[^ ]*\).*/-:\1/p" $tracing/uprobe_events)
		echo "$ours" >>$tracing/uprobe_events
	} 2>/dev/null
}
trap finish EXIT

# Which registers are fetched is all the same to the cost.
# Location as the note says it, an address; the kernel wants the offset in the file.
number=0
for address in $(readelf -n "$loop" | awk '/Name: / { name = $2 } /Location:/ && name == "number" { sub(",", "", $2); print $2 }'); do
	offset=$(readelf -lW "$loop" | awk '$1 == "LOAD" { print $2, $3, $5 }' | while read -r at from bytes; do
		((address >= from && address < from + bytes)) && printf '0x%x' $((address - from + at))
	done)
	number=$((number + 1))
	echo "p:$group/number_$number $loop:$offset a=%di:s32 b=%si:u64" >>$tracing/uprobe_events ||
		skip "the kernel refused the uprobe"
done
[ $number -gt 0 ] || skip "no note in $loop"
echo 1 >$tracing/events/$group/enable || skip "the kernel refused to enable the uprobe"
lines=$("$loop" 5e4) || skip "the loop failed"
# without hits the loop's times would be those of no probe
grep -F "$loop" $tracing/uprobe_profile | grep -qE ' number_[0-9]+ +[1-9]' ||
	skip "the kernel accepts a uprobe, and it does not count"
echo "$lines"
