#!/bin/bash
# SPDX-License-Identifier: MIT
# The cost of a hit with count=task-clock, count=page-faults and both, beside one without:
# cost.sh BUILD
set -eu
build=$(readlink -f "$1")
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -I"$source/include" "$source/bench/cost_loop.c" -o "$folder/loop"
export WAYMARK_AGENT=$build/inside/libwaymark-agent.so
"$build/cli/waymark" record -o "$folder/trace" --buffer 256M \
	-e cost:none -e cost:clock/count=task-clock/ -e cost:faults/count=page-faults/ \
	-e cost:both/count=task-clock+page-faults/ -- "$folder/loop"
