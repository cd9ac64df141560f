#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark list of a running process: states, and hits while an agent is there to ask.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# text NAME: the state and the hits of that marker of $pid, a line for each module
text()
{
	timeout 30 "$waymark" list --json -p "$pid" "$1" | python3 -c 'import json, sys
for marker in json.load(sys.stdin)["marker"]:
	print("armed" if marker["armed"] else "dormant", "-" if marker["hits"] is None else marker["hits"])'
}

# hits NAME: what JSON says, a number or null, a line for each module
hits()
{
	timeout 30 "$waymark" list --json -p "$pid" "$1" |
		grep -o "{\"name\":\"$1\"[^}]*" | sed -n 's/.*"hits":\([0-9a-z]*\),.*/\1/p'
}

# record_to FOLDER: $pid, in the background; returns when its markers are armed
record_to()
{
	"$waymark" record -o "$1" -p "$pid" >out 2>words &
	recorder=$!
	await is_armed || fail "$marker was not armed: $(text "$marker"), $(cat words)"
}

is_armed()
{
	[ "$(text "$marker" | grep -c '^armed [0-9]')" -gt 0 ]
}

# record_ends: and the program continues
record_ends()
{
	kill -TERM "$recorder"
	wait "$recorder" || fail "record: $(cat words)"
	kill -0 "$pid" || fail "the program is gone"
}

# no_agent WHAT: no thread of Waymark's is in the process
no_agent()
{
	await ! has_agent "$pid" || fail "$1: the agent has threads there"
}

# A program without an agent; with one, while it is recorded; and after that.
marker=ticker:tick
start ./ticker 20 2 1000000
await_running "$pid"
expect "no agent: text" "$(text $marker)" "dormant -"
expect "no agent: JSON" "$(hits $marker)" null
no_agent "list"
record_to first
before=$(hits $marker)
has_more_hits()
{
	after=$(hits $marker)
	[ "$after" -gt "$before" ]
}
await has_more_hits || fail "hits do not grow: $before, then $after"
[[ $(text $marker) =~ ^"armed "[1-9][0-9]*$ ]] || fail "armed: $(text $marker)"
record_ends
no_agent "record and list have ended"
expect "recorded before: text" "$(text $marker)" "dormant -"
expect "recorded before: JSON" "$(hits $marker)" null
expect "events in the trace" "$(events_in first)" "$("$waymark" dump first | wc -l)"
expect "a file has no hits" "$("$waymark" list ./ticker | grep -c ' HITS')" 0

# A module with a damaged site table is named, the others are listed.
if command -v objcopy >/dev/null; then
	build_target record/steps.c -DLIBRARY -shared -fPIC -o whole.so
	build_target record/holds.c ./whole.so
	objcopy -O binary --only-section=waymark_sites --set-section-flags waymark_sites=alloc \
		whole.so sites || exit 1
	truncate -s "$(stat -c %s sites)" zeros
	objcopy --update-section waymark_sites=zeros whole.so damaged.so 2>/dev/null || exit 1
	mkdir broken
	cp damaged.so broken/whole.so
	start env -C broken ../holds
	await_running "$pid"
	for how in "" --json; do
		# shellcheck disable=SC2086 # none, or an option
		timeout 30 "$waymark" list $how -p "$pid" >out 2>words
		expect "damaged: status" $? 1
		grep -q 'holds:round' out ||
			fail "damaged: the whole module is not listed: $(cat out)"
		grep -q "the module's table of markers or USDT probes is damaged: $folder/broken/whole.so of process $pid" words ||
			fail "damaged: it is not named: $(cat words)"
	done
	"$waymark" list damaged.so >out 2>words
	expect "damaged file: status" $? 1
	grep -q "the module's table of markers or USDT probes is damaged: damaged.so" words ||
		fail "damaged file: $(cat words)"
else
	echo "without objcopy no damaged module is tried"
fi

# A program whose agent stays: exact numbers, of a marker that two modules have.
build_target record/steps.c -DLIBRARY -shared -fPIC -o libsteps.so
build_target record/steps.c ./libsteps.so "$WAYMARK_AGENT" \
	-Wl,-rpath,"$folder:$(dirname "$WAYMARK_AGENT")"
mkfifo orders answers
exec 3<>orders 4<>answers # neither open waits for the other end
start ./steps

# one_more: let it make 111 more hits
one_more()
{
	printf x >&3
	read -r -t 30 -u 4 || fail "the program does not continue"
}

marker=steps:step
one_more
expect "never armed" "$(text $marker)" $'dormant 0\ndormant 0'
expect "never armed: JSON" "$(hits $marker)" $'0\n0'
record_to second
one_more
one_more
expect "armed" "$(text $marker)" $'armed 222\narmed 222'
expect "armed: JSON" "$(hits $marker)" $'222\n222'
record_ends
one_more
expect "disarmed" "$(text $marker)" $'dormant 222\ndormant 222'
expect "recorded" "$(events_in second)" 222

# One who only asks takes no session's place.
for _ in $(seq 20); do
	text $marker >/dev/null &
done
record_to third
one_more
record_ends
expect "recorded with others asking" "$(events_in third)" 111
expect "hits of two recordings" "$(hits $marker)" $'333\n333'

# One marker name with two field names: two kinds of event, in one line of source too.
for options in -O0 -O2 "-O2 -DWAYMARK_PORTABLE"; do
	# shellcheck disable=SC2086 # several words
	build_target record/names.c $options
	expect "names $options: list" "$("$waymark" list ./names | grep -c 'bytes int32\|rows int32')" 2
	rm -rf names_trace
	"$waymark" record -o names_trace -- ./names 2>words || fail "names: $(cat words)"
	expect "names $options: dump" "$("$waymark" dump names_trace | sed 's/.* db:op: //')" \
		"$(for i in 0 1 2; do printf '{ rows = %d }\n{ bytes = %d }\n' $i $((i + 1000)); done)"
done

# The note moves, as patchelf moves it, and the tables do not: its four words, relative to it, point 4 KiB too far.
cp ticker moved
note=$(($(grep -obUaP '\x10\0\0\0\x01\0\0\0Waymark\0' moved | head -n 1 | cut -d : -f 1) + 16))
for word in $(od -An -td4 -j $note -N 16 moved); do
	word=$(printf '%08x' $(((word + 4096) & 0xffffffff)))
	printf '%b' "\\x${word:6:2}\\x${word:4:2}\\x${word:2:2}\\x${word:0:2}"
done | dd of=moved bs=1 seek=$note conv=notrunc status=none
"$waymark" list ./ticker | sed 's/ [^ ]*$//' >wanted
"$waymark" list ./moved 2>words | sed 's/ [^ ]*$//' | cmp - wanted || fail "a moved note: $(cat words)"
start ./moved 1 1 1000000
await_running "$pid"
expect "a moved note: a process" "$("$waymark" list --json -p "$pid" | grep -o '"sites":1,')" "$("$waymark" list --json ./ticker | grep -o '"sites":1,')"
records moved_trace -p "$pid"
# What cannot be found is named: one record less, and no table fits.
cp ticker damaged
printf '\x7f' | dd of=damaged bs=1 seek=$((note + 10)) conv=notrunc status=none
"$waymark" list ./damaged >/dev/null 2>words
grep -q "the module's table of markers or USDT probes is damaged: ./damaged" words || fail "a damaged table: $(cat words)"
exit "$failed"
