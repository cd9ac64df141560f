#!/bin/bash
# SPDX-License-Identifier: MIT
# Arguments and results of functions with random signatures are recorded as the program itself prints them.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# one_a_line FILE: each field of each event on its own line, behind the event's name
one_a_line()
{
	sed 's/: { \(.*\) }$/ \1/; s/, /\n/g' "$1" | awk '/^values:/ { event = $1; sub(/^[^ ]* ?/, "") } { print event, $0 }' | sort
}

command -v python3 >/dev/null || skip "no python3"
for seed in 1 2 3; do
	python3 "$probes_dir/values.py" $seed >values.c || exit 1
	for compiler in gcc clang; do
		command -v $compiler >/dev/null || continue
		for way in -O0 -O2; do
			what="$compiler $way, seed $seed"
			$compiler $way -g -w values.c -o values || fail "$what: it does not compile"
			rm -rf recorded
			run 0 --json -o recorded -e 'func:f[0-9]*@values/ret/' -- ./values
			grep '^values:' out >wanted
			"$waymark" dump recorded | sed 's/^.* \(values:f\)/\1/' >got
			expect "$what: events" "$(wc -l <wanted)" 120
			expect "$what: recorded" "$(wc -l <got)" 120
			[ "$compiler$way" = clang-O2 ] || { cmp -s wanted got || fail "$what: $(diff wanted got | head -20)"; continue; }
			# LLVM's optimiser loses where some parameters are: what is recorded must be right.
			one_a_line wanted >wanted.fields
			one_a_line got >got.fields
			comm -13 wanted.fields got.fields | grep -v 'begin $' >wrong
			[ ! -s wrong ] || fail "$what: $(head wrong)"
			[ "$(wc -l <got.fields)" -gt $(($(wc -l <wanted.fields) * 3 / 4)) ] ||
				fail "$what: $(wc -l <got.fields) fields of $(wc -l <wanted.fields)"
		done
	done
done

exit "$failed"
