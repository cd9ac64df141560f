# SPDX-License-Identifier: MIT
# Shared by the tests of watches: the program whose variables are watched, and what was recorded of them.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/record_setup.bash"

needs breakpoint-write breakpoint-signal
[ "$(printf '%s\n' 5.18 "$(uname -r)" | sort -V | head -n 1)" = 5.18 ] || skip "watches need Linux 5.18 or later"
cc -O1 -g "$source_dir/tests/targets/watched.c" -o watched -lpthread -ldl || exit 1

# watches NAME STATUS ARGUMENT...: record into the folder NAME, with --json in ./out, and the program's own words in ./out too
watches()
{
	local name=$1 status=$2
	shift 2
	rm -rf "$name"
	run "$status" --json -o "$name" "$@"
}

# reports DIR: the report of a trace has the counts that the recording has in ./out
reports()
{
	"$waymark" report --json "$1" >summed || fail "report --json $1: $?"
	python3 - out summed <<'END' || fail "$1: the report has other counts: $(cat summed)"
import json, sys
def watches(name):
    text = open(name).read() # the program may have written before
    return json.loads(text[text.index('{"'):])["watch"]
said, summed = map(watches, sys.argv[1:])
assert said and summed == said, said
END
}

# field_values DIR NAME FIELD: one line for each event, in order of time
field_values()
{
	of_events "$1" "watch:$2" "$3"
}

# chain DIR NAME: fails unless each old value is the new one before. Up to 1 in 100 may be marked as unknown (bit 3 of `how`):
# a record that the kernel writes more than 100 ms late, as where the host has put off a virtual CPU, leaves two of these.
chain()
{
	local broken unknown links
	read -r broken unknown links < <(of_events "$1" "watch:$2" old new how | awk '
		NR > 1 && int($3 / 8) % 2 { unknown++ }
		NR > 1 && int($3 / 8) % 2 == 0 && $1 != last { broken++ }
		{ last = $2 }
		END { print broken + 0, unknown + 0, NR }')
	expect "$1: broken links of the chain" "$broken" 0
	[ $((unknown * 100)) -le "$links" ] || fail "$1: of $links old values $unknown are unknown"
}

# ends_well PID FILE [WHEN]: asked to end, the program does, and what it said into FILE is that all was right
ends_well()
{
	kill -TERM "$1"
	await has_ended "$1" || fail "${3:+$3: }the program does not end"
	grep -q right "$2" || fail "${3:+$3: }the program: $(cat "$2")"
}

# race [/OPTIONS/]: eight threads at once, without a lock: all hits, each value its thread's own, and the chain has no gap
race()
{
	local thread

	watches race 0 -e "watch:raced${1-}" -- ./watched race 200 8
	expect "hits of a race" "$(json hits)" 1600
	expect "missed of a race" "$(json missed)" 0
	expect "exact values of a race" "$(json inexact)" 0
	chain race raced
	for thread in 0 1 2 3 4 5 6 7; do
		field_values race raced new | awk -v t="$thread" 'int($1 / 4294967296) == t { print $1 % 4294967296 }' >of_one
		seq 1 200 | cmp -s - of_one || fail "the values of thread $thread in their order: $(head -3 of_one)"
	done
}

# small_types [OPTIONS]: signed and unsigned values, of a watch of them in ./types; offsets of what takes three registers
small_types()
{
	expect "signed" "$(field_values types small new | tr '\n' ' ')" "0 -1 -2 "
	expect "unsigned" "$(field_values types narrow new | tr '\n' ' ')" "250 251 252 "
	watches split 0 -e "watch:order${1-}" -- ./watched types
	says "it takes 3 debug registers, which are counted one by one"
	expect "offsets" "$(field_values split order offset | sort -un | tr '\n' ' ')" "0 8 16 "
}

# await_gdb PID FILE: until gdb, whose words go to FILE, has come to `echo armed\n` and then continues all threads
await_gdb()
{
	await is_continued "$1" "$2" || fail "gdb does not continue process $1: $(cat "$2")"
}

is_continued()
{
	grep -qsx armed "$2" && ! grep -qs '^State:.t' "/proc/$1/task"/*/status
}

# await_armed PID: until the ledger has a debug register of its as held, which is after arming
await_armed()
{
	await is_armed "$1" || fail "$1 was not armed: $("$waymark" claims -p "$1")"
}

is_armed()
{
	[ "$("$waymark" claims -p "$1" --json 2>/dev/null | grep -c '"state": *"held"')" -gt 0 ]
}
