#!/bin/bash
# SPDX-License-Identifier: MIT
#
# marker.hot_bytes and marker.hot_pushes: what each way of marking adds to a leaf function's hot path,
# read from the object code: bytes from the entry to the end of the first return, and pushes.
#
#	hot_bytes.sh PREFIX	archives PREFIX<way>.a of dormant_body.c
set -eu
prefix=$1

hot_path() { # WAY
	objdump -d --no-show-raw-insn "${prefix}$1.a" |
		awk '/<leaf_0>:/ { on = 1; next } on { print } on && /\tret/ { exit }'
}

address() { sed 's/[ \t]*\([0-9a-f]*\):.*/0x\1/'; }

bytes() { # WAY
	local first last
	first=$(hot_path "$1" | head -n1 | address)
	last=$(hot_path "$1" | tail -n1 | address)
	echo $((last + 1 - first))
}

plain=$(bytes none)
for way in waymark lttng sdt flag nop5; do
	[ -f "${prefix}$way.a" ] || continue
	suffix=.$way
	[ "$way" = waymark ] && suffix=
	echo "figure marker.hot_bytes$suffix $(($(bytes "$way") - plain)) bytes"
	echo "figure marker.hot_pushes$suffix $(hot_path "$way" | grep -cE 'push|sub .*rsp' || true) instructions"
done
