#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The figures of probes' hits: mechanisms.sh BUILD TABLE. Has bench_mechanisms measure, with
# LTTng-UST and uftrace as peers, and writes the whole table into the file TABLE.
#
#	probe.usdt_hit_ns          two arguments of a USDT probe recorded, its nop being one byte
#	probe.func_entry_ns        two arguments of a function without preparation
#	probe.func_entry_ret_ns    and what it returns
#	probe.filler_entry_ns      two arguments of a function with filler
#	probe.uprobe_over_usdt     the kernel's uprobe on the same nop, over ours
set -u
build=$1 table=$2
bench=$build/bench
here=$(cd "$(dirname "$0")" && pwd)
uftrace="$here/uftrace.sh $bench/loop_uftrace"

"$bench/mechanisms/bench_mechanisms" 300000 "LTTng-UST=$here/lttng/peer.sh $bench" \
	"uftrace, and the return=$uftrace" >"$table.tsv" || exit 1
python3 - "$table.tsv" "$table" <<'END'
import math
import sys

FIGURES = {
    "USDT by Waymark": "usdt_hit_ns", "moved jump": "func_entry_ns", "filler": "filler_entry_ns",
    "moved jump, and the return": "func_entry_ret_ns", "kernel uprobe": "usdt_hit_ns.uprobe",
    "kernel nop5 uprobe": "usdt_hit_ns.nop5_uprobe",
    "kernel uprobe, and the return": "func_entry_ret_ns.uprobe",
    "uftrace, and the return": "func_entry_ret_ns.uftrace",
}
COLUMNS = ("dormant ns", "hit ns", "hot bytes", "arming us")

with open(sys.argv[1], encoding="utf-8") as file:
    rows = [line.rstrip("\n").split("\t") for line in file]
hits = {}
with open(sys.argv[2], "w", encoding="utf-8") as table:
    print(f"{'mechanism':36}", *(f"{column:>12}" for column in COLUMNS), file=table)
    for name, *numbers, skipped in rows:
        numbers = [float(number) for number in numbers]
        cells = ("-" if math.isnan(number) else f"{number:.2f}" for number in numbers)
        print(f"{name:36}", *(f"{cell:>12}" for cell in cells), skipped, file=table)
        if name not in FIGURES:
            continue
        if skipped:
            print(f"skipped probe.{FIGURES[name]}: {skipped}")
            continue
        hits[name] = numbers[1]
        print(f"figure probe.{FIGURES[name]} {numbers[1]:.4g} ns")
if "USDT by Waymark" in hits and "kernel uprobe" in hits:
    print(f"figure probe.uprobe_over_usdt {hits['kernel uprobe'] / hits['USDT by Waymark']:.4g} ratio")
END
