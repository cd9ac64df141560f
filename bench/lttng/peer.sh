#!/bin/bash
# SPDX-License-Identifier: MIT
#
# LTTng-UST as a row of bench_mechanisms: peer.sh BENCH, the folder of the built benches. Prints
# `raw dormant`, `raw hit`, `raw bytes`, `raw arm`. Exit status 77, with the reason, where it can't.
set -u
bench=$1
here=$(cd "$(dirname "$0")" && pwd)
export WAYMARK_BENCH_RUNS=${WAYMARK_BENCH_RUNS:-5}

live=$("$here/run.sh" "$bench/loop_lttng") || { echo "$live" | tail -n1; exit 77; }
echo "$live" | awk '$1 == "raw" { value[$2] = $3 }
	END { print "raw hit", value["number"] - value["empty"]; if ("arm" in value) print "raw arm", value["arm"] }'
"$bench/bench_dormant" | awk '$2 == "marker.leaf_delta_ns.lttng" { print "raw dormant", $3 }'
"$here/../hot_bytes.sh" "$bench/libdormant_" | awk '$2 == "marker.hot_bytes.lttng" { print "raw bytes", $3 }'
