# SPDX-License-Identifier: MIT
# Shared by the tests of watches: the program whose variables are watched, and what was recorded of them.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
# shellcheck source=tests/record_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/record_setup.bash"

cc -O1 -g "$source_dir/tests/targets/watched.c" -o watched -lpthread -ldl || exit 1

# Not every machine has debug registers to give.
if ! timeout 20 "$waymark" record -o can -e watch:in_turn -- ./watched turn 1 1 >/dev/null 2>can_words &&
	grep -q "debug registers are free\|perf_event\|paranoid\|Linux 5.18" can_words; then
	skip "$(head -1 can_words)"
fi
rm -rf can

# watches NAME STATUS ARGUMENT...: record into the folder NAME, with --json in ./out, and the program's own words in ./out too
watches()
{
	local name=$1 status=$2
	shift 2
	rm -rf "$name"
	run "$status" --json -o "$name" "$@"
}

# told DIR NAME FIELD: one line for each event, in order of time
told()
{
	"$waymark" dump "$1" | sed -n "s/.* watch:$2: .* $3 = \([^,}]*\).*/\1/p" | tr -d ' '
}

# chain DIR NAME: fails unless each old value is the new one before
chain()
{
	local broken
	broken=$("$waymark" dump "$1" | sed -n "s/.* watch:$2: .* old = \([^,]*\), new = \([^,}]*\).*/\1 \2/p" |
		awk 'NR > 1 && $1 != last { n++ } { last = $2 } END { print n + 0 }')
	expect "$1: broken links of the chain" "$broken" 0
}

# ends_well PID FILE [WHEN]: asked to end, the program does within 5 s, and what it said into FILE is that all was right
ends_well()
{
	kill -TERM "$1"
	for _ in $(seq 50); do
		[ -d "/proc/$1" ] || break
		sleep 0.1
	done
	grep -q right "$2" || fail "${3:+$3: }the program: $(cat "$2")"
}
