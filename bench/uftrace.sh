#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A function's entry and return by uftrace: uftrace.sh LOOP, printing LOOP's raw lines while two
# arguments and the result are recorded. Exit status 77, with the reason, where it can't run.
set -u
loop=$(realpath "$1")

skip() { echo "$*"; exit 77; }

command -v uftrace >/dev/null || skip "uftrace is not installed"
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-uftrace.XXXXXX")
trap 'rm -rf "$work"' EXIT
timeout 60 uftrace record -d "$work/data" -b 16m --no-pager --no-event --no-libcall \
	-A function_traced@arg1,arg2 -R function_traced@retval "$loop" >"$work/out" 2>"$work/err" ||
	skip "uftrace failed: $(tail -n1 "$work/err")"
# What was recorded must be there, or the figure means nothing.
timeout 60 uftrace report -d "$work/data" --no-pager 2>/dev/null | grep -q function_traced ||
	skip "uftrace recorded nothing"
grep '^raw ' "$work/out"
