#!/bin/bash
# SPDX-License-Identifier: MIT
#
# filter.sh BUILD: what a marker's hit costs that a condition rejects, above the empty loop.
#
#	filter.rejected_ns		a number is compared
#	filter.string_rejected_ns	a text is, and differs behind 8 characters
#	filter.rejected_ns.bpftrace	a uprobe with a predicate of bpftrace's, at the same loop
set -u
build=$(realpath "$1")
bench=$build/bench
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

# raw NAME: a value that the loop printed
raw() { awk -v name="$1" '$1 == "raw" && $2 == name { print $3 }' "$work/loop"; }
# above NAME: the cost of a hit
above() { awk -v value="$(raw "$1")" -v empty="$(raw empty)" 'BEGIN { printf "%.4g", value - empty }'; }

"$build/cli/waymark" record --json -o "$work/trace" -e 'bench:number/if=count==0/' \
	-e 'bench:text/if=text~"sixteen w*"/' -- "$bench/loop_waymark" >"$work/loop" 2>"$work/err" ||
	{ cat "$work/err" >&2; exit 1; }
grep -q '"recorded":0[,}]' "$work/loop" || { echo "some hits were not rejected" >&2; exit 1; }
echo "figure filter.rejected_ns $(above number) ns"
echo "figure filter.string_rejected_ns $(above text) ns"

command -v bpftrace >/dev/null && [ "$(id -u)" -eq 0 ] && [ -x "$bench/loop_sdt" ] ||
	{ echo "skipped filter.rejected_ns.bpftrace: it needs bpftrace, root and sys/sdt.h"; exit 0; }
bpftrace -c "$bench/loop_sdt 1e5" -e "usdt:$bench/loop_sdt:waymark_bench:number /arg1 == 0/ { @ = count(); }" \
	>"$work/loop" 2>"$work/err"
[ -n "$(raw number)" ] || { echo "skipped filter.rejected_ns.bpftrace: $(tail -n 1 "$work/err")"; exit 0; }
echo "figure filter.rejected_ns.bpftrace $(above number) ns"
