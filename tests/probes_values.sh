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
			"$waymark" dump --no-spans recorded | sed 's/^.* \(values:f\)/\1/' >got
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

# Values of enumerations have names. These are in the trace: the program is gone when we read it.
# named JSON: each event's names, then its fields
named()
{
	python3 -c 'import json, sys
for line in sys.stdin:
	event = json.loads(line)
	print(event["name"], event.get("names", {}), event["fields"])'
}

cat >named.wanted <<'END'
colors:turn:begin {'c': 'RED', 's': 'BELOW', 'l': 'LOWEST', 'w': 'HUGE', 'f': 'READ'} {'c': 0, 's': -2, 'l': -9223372036854775808, 'w': 9223372036854775809, 'f': 1}
colors:turn:end {'ret': 'BELOW'} {'ret': -2}
colors:turn:begin {'c': 'BLUE', 'l': 'MINUS', 'w': 'SMALL'} {'c': 200, 's': 5, 'l': -1, 'w': 1, 'f': 5}
colors:turn:end {'ret': 'ABOVE'} {'ret': 200}
colors:turn:begin {'s': 'ZERO', 'l': 'HIGHEST'} {'c': 3, 's': -1, 'l': 9223372036854775807, 'w': 7, 'f': 0}
colors:turn:end {'ret': 'ABOVE'} {'ret': 200}
colors:swap:begin {'p_s': 'ABOVE'} {'p_n': 4, 'p_s': 200}
colors:swap:end {'ret_s': 'BELOW'} {'ret_n': 5, 'ret_s': -2}
END
cat >text.wanted <<'END'
colors:turn:begin: { c = RED, s = BELOW, l = LOWEST, w = HUGE, f = READ }
colors:turn:end: { ret = BELOW }
colors:turn:begin: { c = BLUE, s = 5, l = MINUS, w = SMALL, f = 5 }
colors:turn:end: { ret = ABOVE }
colors:turn:begin: { c = 3, s = ZERO, l = HIGHEST, w = 7, f = 0 }
colors:turn:end: { ret = ABOVE }
colors:swap:begin: { p_n = 4, p_s = ABOVE }
colors:swap:end: { ret_n = 5, ret_s = BELOW }
END
cat >babeltrace.wanted <<'END'
colors:turn:begin: { c = ( "RED" : container = 0 ), s = ( "BELOW" : container = -2 ), l = ( "LOWEST" : container = -9223372036854775808 ), w = ( "HUGE" : container = 9223372036854775809 ), f = ( "READ" : container = 1 ) }
colors:turn:end: { ret = ( "BELOW" : container = -2 ) }
colors:turn:begin: { c = ( "BLUE" : container = 200 ), s = ( <unknown> : container = 5 ), l = ( "MINUS" : container = -1 ), w = ( "SMALL" : container = 1 ), f = ( <unknown> : container = 5 ) }
colors:turn:end: { ret = ( "ABOVE" : container = 200 ) }
colors:turn:begin: { c = ( <unknown> : container = 3 ), s = ( "ZERO" : container = -1 ), l = ( "HIGHEST" : container = 9223372036854775807 ), w = ( <unknown> : container = 7 ), f = ( <unknown> : container = 0 ) }
colors:turn:end: { ret = ( "ABOVE" : container = 200 ) }
colors:swap:begin: { p_n = 4, p_s = ( "ABOVE" : container = 200 ) }
colors:swap:end: { ret_n = 5, ret_s = ( "BELOW" : container = -2 ) }
END
for compiler in gcc clang; do
	command -v $compiler >/dev/null || continue
	$compiler -O0 -g "$probes_dir/colors.c" -o colors || fail "$compiler: colors.c does not compile"
	for children in 0 1; do
		what="$compiler, $children children"
		rm -rf named
		run 0 --json -o named -e 'func:turn@colors/ret/' -e 'func:swap@colors/ret/' -- ./colors $children
		mv colors gone
		"$waymark" dump --json named | named >got
		for _ in $(seq 0 $children); do cat named.wanted; done >wanted
		cmp -s wanted got || fail "$what: $(diff wanted got)"
		"$waymark" dump --no-spans named | sed 's/^.* \(colors:\)/\1/' >got
		for _ in $(seq 0 $children); do cat text.wanted; done >wanted
		cmp -s wanted got || fail "$what: $(diff wanted got)"
		if command -v babeltrace2 >/dev/null; then
			babeltrace2 named | sed -n 's/^.* \(colors:[a-z:]*\) { pid.*}, {/\1 {/p' >got
			for _ in $(seq 0 $children); do cat babeltrace.wanted; done >wanted
			cmp -s wanted got || fail "$what: babeltrace2: $(diff wanted got)"
		fi
		mv gone colors
	done
done
rm -rf typed
run 0 -o typed -e 'func:turn@colors/c:u32,s/' -- ./colors 0
expect "with a type: a number" "$("$waymark" dump typed | head -1 | sed 's/.*{/{/')" '{ c = 0, s = BELOW }'

exit "$failed"
