#!/bin/bash
# SPDX-License-Identifier: MIT
# The library's functions that read, by what is installed alone: the examples in C and in C++, and a
# trace event by event as waymark dump has it.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"
waymark=$WAYMARK_BUILD/cli/waymark

# shellcheck source=tests/install_setup.bash
. "$source_dir/tests/install_setup.bash"
read -ra flags <<<"$(pkg-config --cflags --libs waymark)"

# build_example NAME: as NAME-c and NAME-cc
build_example()
{
	[ "$(wc -l <"$source_dir/examples/$1.c")" -le 40 ] || fail "$1.c has more than 40 lines"
	gcc -std=c11 -pedantic-errors -O2 -Wall -Wextra -Werror "$source_dir/examples/$1.c" -o "$1-c" \
		"${flags[@]}" || fail "$1.c does not compile as C"
	g++ -std=c++17 -pedantic-errors -O2 -Wall -Wextra -Werror -x c++ "$source_dir/examples/$1.c" \
		-x none -o "$1-cc" "${flags[@]}" || fail "$1.c does not compile as C++"
}

build_example events
build_example places
gcc -Wall -Wextra -Werror "$source_dir/tests/targets/library/stream.c" -o stream "${flags[@]}" ||
	fail "stream.c does not compile"
[ $failed -eq 0 ] || exit 1

# ---- a trace of several threads and processes ----

build_target record/work.c -O2
"$waymark" record -o trace --wait-all -- ./work >words 2>&1 || { cat words; exit 1; }

# The processes' records are the library's alone.
"$waymark" dump --json trace |
	sed -n 's/^{"time_ns":\([0-9]*\),"pid":\([0-9]*\),"tid":\([0-9]*\),.*"name":"\([^"]*\)".*/\1 \2 \3 \4/p' >dumped
./stream trace >streamed || fail "the trace can't be read"
[ "$(wc -l <dumped)" -ge 16080 ] || fail "the trace has $(wc -l <dumped) events"
grep ' waymark:' streamed >records
sed -i '/ waymark:/d' streamed
cut -d ' ' -f 1-4 streamed | cmp - dumped || fail "the library does not read what dump prints"
[ "$(cut -d ' ' -f 4,5 streamed | sort -u)" = "$(printf '%s\n' 'work:item:begin 1' 'work:item:end 0' 'work:mark 2')" ] ||
	fail "fields: $(cut -d ' ' -f 4,5 streamed | sort -u)"

for language in c cc; do
	./events-$language trace >said 2>words || fail "events-$language: $(cat words)"
	[ ! -s words ] || fail "events-$language: $(cat words)"
	[ "$(awk '!/waymark:/ { print $2, $1 }' said | sort)" = "$(awk '{ print $4 }' dumped | sort | uniq -c |
		awk '{ print $2, $1 }')" ] || fail "events-$language: $(cat said)"
done

# ---- the begin and the end of processes, in a trace and read live ----

parent=$(sed -n 's/^[0-9]* \([0-9]*\) 0 waymark:start 2$/\1/p' records)
child=$(sed -n 's/^[0-9]* \([0-9]*\) 0 waymark:fork 2$/\1/p' records)
[ "$(head -2 records | cut -d ' ' -f 2,4)" = "$(printf '%s\n' "$parent waymark:start" "$child waymark:fork")" ] ||
	fail "records: $(cat records)"
# an end's time is when the tool saw it, and it may see both at once
[ "$(tail -n +3 records | cut -d ' ' -f 2,4 | sort)" = "$(printf '%s\n' "$child waymark:end" "$parent waymark:end" | sort)" ] ||
	fail "records: $(cat records)"

build_target record/forks.c
gcc -Wall -Wextra -Werror "$source_dir/tests/targets/library/live.c" -o live "${flags[@]}" ||
	fail "live.c does not compile"
timeout 60 ./live >said 2>words || fail "live: $(cat words)"
parent=$(awk '/waymark:start/ { print $3 }' said)
child=$(awk '/waymark:fork/ { print $3 }' said)
grep -qx "f waymark:fork $child $parent /forks" said || fail "fork: $(cat said)"
# of the parent, of the child: a line each
[ "$(awk -v pid="$parent" '$3 == pid { print $1, $2 }' said)" = "$(printf '%s\n' 's waymark:start' \
	'm forks:run' 'q waymark:end')" ] || fail "the parent, live: $(cat said)"
awk -v pid="$child" '$3 == pid { print $1, $2 }' said >of_child
[ "$(sort of_child)" = "$(printf '%s\n' 'f waymark:fork' 'm forks:child' 'm forks:run' \
	'q waymark:end' 'x waymark:exec')" ] || fail "the child, live: $(cat said)"
[ "$(tail -n 3 of_child)" = "$(printf '%s\n' 'x waymark:exec' 'm forks:run' 'q waymark:end')" ] ||
	fail "the child's program, live: $(cat said)"
timeout 60 ./live sleep >said 2>words || fail "the end of a child does not end the poll: $(cat said words)"
timeout 60 ./live without records >said 2>words || fail "live: $(cat words)"
[ "$(cut -d ' ' -f 1 said | sort -u)" = m ] || fail "unrequested records: $(cat said)"

# A program that is executed takes time until its agent comes: no reader takes that for the end.
build_target record/slow.c
timeout 60 ./live executes without records >said 2>words || fail "live, execve: $(cat said words)"
[ "$(cut -d ' ' -f 2 said | tr '\n' ' ')" = "forks:run forks:slow " ] ||
	fail "what a launched program executes, live: $(cat said)"

"$waymark" record -o forked --wait-all -- ./forks >words 2>&1 || { cat words; exit 1; }
./stream forked >streamed || fail "the trace can't be read"
child=$(awk '/waymark:fork/ { print $2 }' streamed)
[ "$(awk -v pid="$child" '$2 == pid { print $4 }' streamed)" = "$(printf '%s\n' waymark:fork \
	forks:child waymark:exec forks:run waymark:end)" ] || fail "the child: $(cat streamed)"
[ "$(awk -v pid="$child" '$2 != pid { print $4 }' streamed)" = "$(printf '%s\n' waymark:start \
	forks:run waymark:end)" ] || fail "the parent: $(cat streamed)"
sort -s -n -k 1,1 streamed | cmp - streamed || fail "the records are out of order"

# ---- what can be recorded, by the library and by the command ----

build_target record/queue.c
./queue &
pid=$!
trap 'kill $pid; rm -rf "$folder"' EXIT
# same WHAT SPEC ARGUMENT...: places lists the names that waymark list ARGUMENT... has
same()
{
	local what=$1 spec=$2 language
	shift 2
	timeout 60 "$waymark" list --json "$@" >listed 2>words || fail "list $*: $(cat words)"
	grep -o '{"name":"[^"]*' listed | cut -d '"' -f 4 | sort -u >names
	for language in c cc; do
		timeout 60 ./places-$language "$what" "$spec" >said 2>words ||
			fail "places-$language $what $spec: $(cat words)"
		sed -n 's/^ *0x[0-9a-f]*  \([^(]*\)(.*/\1/p' said | sort -u >given
		[ -s given ] || fail "places-$language $what $spec gives nothing"
		cmp given names || fail "places-$language $what $spec"
	done
}
same queue 'usdt:*:*' --usdt queue
grep -q '	not: a marker is at this place' said || fail "USDT: $(cat said)"
same queue 'func:*' '--func=*' queue
same queue 'marker:*:*' queue
grep -q '^ *0x[0-9a-f]*  queue:push(job, priority, mail)  .*queue.c:[0-9]*  queue$' said ||
	fail "marker: $(cat said)"
await [ "/proc/$pid/exe" -ef queue ] || fail "queue does not start"
same $pid 'usdt:queue:*' '--usdt=queue:*' -p $pid
same $pid 'func:mem*@libc' '--func=mem*@libc' -p $pid
grep -q '	not: ' said || fail "nothing in libc is refused"
same $pid 'marker:queue:*' -p $pid 'queue:*'
./places-c $pid func:nosuch >said 2>words && fail "func:nosuch is there"
grep -q 'there is no such function' words || fail "func:nosuch: $(cat words)"

# ---- a damaged one: what could be read, and a word about the rest ----

stream=$(find trace -name '[0-9]*-[0-9]*' -size +4k | head -n 1)
truncate -s -1 "$stream"
./events-c trace >said 2>words || fail "a damaged trace can't be read: $(cat words)"
grep -q "damaged: $(basename "$stream"), byte [0-9]*: cut in a packet" words || fail "damage: $(cat words)"
grep -q '^thread 0 lost [1-9][0-9]* events$' words || fail "losses: $(cat words)"
[ "$(awk '{ sum += $1 } END { print sum }' said)" -lt "$(wc -l <dumped)" ] || fail "nothing is missing"
lost=$(awk '/lost/ { sum += $4 } END { print sum }' words)
read_events=$(awk '!/waymark:/ { sum += $1 } END { print sum }' said)
[ $((lost + read_events)) -eq "$(wc -l <dumped)" ] || fail "$lost lost and $read_events read"
./events-c /proc/self >said 2>words && fail "/proc/self was read"
grep -q 'this is no trace' words || fail "no trace: $(cat words)"
exit $failed
