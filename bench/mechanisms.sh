#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The figures of probes' hits: mechanisms.sh BUILD TABLE. Has `waymark bench mechanisms` measure, with
# LTTng-UST and uftrace as peers, and writes the whole table into the file TABLE.
#
#	probe.usdt_hit_ns          two arguments of a USDT probe recorded, its nop being one byte
#	probe.func_entry_ns        two arguments of a function that nobody prepared
#	probe.func_entry_ret_ns    and what it returns
#	probe.filler_entry_ns      two arguments of a function with filler
#	probe.uprobe_over_usdt     the kernel's uprobe on the same nop, over ours
set -u
build=$1 table=$2
bench=$build/bench
here=$(cd "$(dirname "$0")" && pwd)
uftrace="$here/uftrace.sh $bench/loop_uftrace"

"$build/cli/waymark" bench mechanisms --json --peer "LTTng-UST=$here/lttng/peer.sh $bench" \
	--peer "uftrace, and the return=$uftrace" >"$table.json" || exit 1
python3 - "$table.json" "$table" <<'END'
import json
import sys

FIGURES = {
    "USDT by Waymark": "usdt_hit_ns", "moved jump": "func_entry_ns", "filler": "filler_entry_ns",
    "moved jump, and the return": "func_entry_ret_ns", "kernel uprobe": "usdt_hit_ns.uprobe",
    "kernel nop5 uprobe": "usdt_hit_ns.nop5_uprobe",
    "kernel uprobe, and the return": "func_entry_ret_ns.uprobe",
    "uftrace, and the return": "func_entry_ret_ns.uftrace",
}
COLUMNS = ("dormant_ns", "hit_ns", "hot_bytes", "arming_us")

with open(sys.argv[1], encoding="utf-8") as file:
    rows = json.load(file)
hits = {}
with open(sys.argv[2], "w", encoding="utf-8") as table:
    print(f"{'mechanism':36}", *(f"{column.replace('_', ' '):>12}" for column in COLUMNS), file=table)
    for row in rows:
        cells = ("-" if row[column] is None else f"{row[column]:.2f}" for column in COLUMNS)
        print(f"{row['mechanism']:36}", *(f"{cell:>12}" for cell in cells), row["skipped"] or "", file=table)
        if row["mechanism"] not in FIGURES:
            continue
        if row["hit_ns"] is None:
            print(f"skipped probe.{FIGURES[row['mechanism']]}: {row['skipped']}")
            continue
        hits[row["mechanism"]] = row["hit_ns"]
        print(f"figure probe.{FIGURES[row['mechanism']]} {row['hit_ns']:.4g} ns")
if "USDT by Waymark" in hits and "kernel uprobe" in hits:
    print(f"figure probe.uprobe_over_usdt {hits['kernel uprobe'] / hits['USDT by Waymark']:.4g} ratio")
END
