#!/bin/bash
# SPDX-License-Identifier: MIT
# One program for each public header, by what is installed alone, in C and in C++: it compiles without a
# warning, and does what it says. And the rules of include/waymark/README.md that a machine can check.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

include=$source_dir/include/waymark
# for marker, probe, handler, agent, session, trail, kevent, claim, trace, list
programs="spans probe handler agent live trail stores reserve events places"

# ---- rules ----

# contract HEADER: the paragraph that is the same in all of them
contract()
{
	awk '/^ \* Threads, cancellation and fork\./ { on = 1 } on { print } /says so\.$/ { on = 0 }' "$include/$1"
}
contract session.h >paragraph
expect "lines of the paragraph in session.h" "$(wc -l <paragraph)" 6
for header in trail.h kevent.h claim.h trace.h list.h probe.h agent.h; do
	contract $header | cmp -s - paragraph || fail "$header has another paragraph on threads"
done

for header in "$include"/*.h; do
	header=${header##*/}
	case $header in error.h | options.h) continue ;; esac
	program=$(sed -n "s/^| \`$header\` .*| \`\([a-z]*\)\.c\` |\$/\1/p" "$include/README.md")
	grep -qs "include <waymark/$header>" "$source_dir/examples/$program.c" ||
		fail "$header has no program in examples/"
	[[ " $programs " == *" $program "* ]] || fail "$program.c, for $header, is not run here"
done

for name in $programs; do
	[ "$(wc -l <"$source_dir/examples/$name.c")" -le 40 ] || fail "$name.c has more than 40 lines"
done

# Each structure whose size a caller sets has a first value.

# ---- programs ----

# shellcheck source=tests/install_setup.bash
. "$source_dir/tests/install_setup.bash"

# compile PROGRAM SOURCE: by the compiler that $compiler names
compile()
{
	local flags

	read -ra flags <<<"$(pkg-config --cflags --libs waymark waymark-agent)"
	[ "$1" != handler ] || flags+=(-shared -fPIC)
	"${compiler[@]}" -O1 -g -Wall -Wextra -pedantic-errors -Werror "$2" -o "$1" "${flags[@]}" 2>words ||
		fail "${compiler[0]}: $2: $(cat words)"
}

build_target library/stored.c
gcc -g -O1 "$source_dir/examples/crash.c" -o crash

# shellcheck disable=SC2317 # await runs it: one line for the agent; whether live has printed an event
passes()
{
	echo line >&3
	read -r line <&4
	grep -qs "thread [0-9]*: demo:line, 2 fields" live.out
}

# Events of a program that listens, in an event loop, until it ends.
follow()
{
	rm -f to from live.out
	mkfifo to from
	./agent <to >from &
	local agent=$! live line

	exec 3>to 4<from
	echo first >&3
	read -r line <&4
	./live $agent marker:demo:line >live.out 2>&1 3>&- 4<&- &
	live=$!
	# what the agent passes before live has armed its marker is not recorded
	await -s 20 passes || fail "$language: live prints no event: $(cat live.out)"
	exec 3>&- 4<&-
	wait $live
	local ended=$?
	expect "$language: live ($(tail -1 live.out))" $ended 0
	wait $agent
	expect "$language: agent" $? 0
}

# Stores to a word, in an event loop, until the program ends.
store()
{
	local pid address

	rm -f to from live.out
	mkfifo to from
	./stored <to >from &
	exec 3>to 4<from
	read -r pid address <&4
	rm -f stores.err
	./stores "$pid" "$address" >stores.out 2>stores.err &
	await -s 20 grep -qs . stores.err || fail "$language: stores does not begin"
	echo >&3
	wait $!
	expect "$language: stores" $? 0
	exec 3>&- 4<&-
	wait "$pid"
	expect "$language: stores seen" "$(grep -c "^$pid 0x" stores.out)" 100
}

# Registers that are reserved: listed, and refused to a second one by the holder's name.
reserve()
{
	local pid holder

	rm -f to from
	mkfifo to from
	./stored <to >from &
	exec 3>to 4<from
	read -r pid _ <&4
	mkfifo go
	./reserve "$pid" 3 <go >reserve.out 2>&1 3>&- 4<&- &
	holder=$!
	exec 5>go
	rm go
	await -s 20 grep -qs . reserve.out || fail "$language: reserve does not begin"
	expect "$language: reserved" "$(grep -c "^reserve $holder holds 1 of $pid$" reserve.out)" 3
	./reserve "$pid" 2 >second.out 2>&1 </dev/null
	expect "$language: a second reserve" $? 1
	grep -q "reserve $holder holds 3 (the example" second.out ||
		fail "$language: the holder: $(cat second.out)"
	exec 5>&-
	wait "$holder"
	expect "$language: reserve" $? 0
	./reserve "$pid" 4 </dev/null >second.out || fail "$language: released: $(cat second.out)"
	exec 3>&- 4<&-
	wait "$pid"
}

for language in c c++; do
	case $language in
	c) compiler=(gcc -std=gnu11 -xc) ;;
	c++) compiler=(g++ -std=c++17 -xc++) ;;
	esac
	for name in $programs; do
		compile "$name" "$source_dir/examples/$name.c"
	done
	compile init "$source_dir/tests/targets/library/init.c"
	[ $failed -eq 0 ] || exit 1

	./init || fail "$language: a first value is not right"
	timeout 60 ./spans || fail "$language: spans"
	expect "$language: probe" "$(./probe)" "1000 bytes counted"
	"$WAYMARK_BUILD/cli/waymark" record --handler ./handler -o "handled-$language" -- cat /none 2>words
	"$WAYMARK_BUILD/cli/waymark" dump "handled-$language" >handled.out
	expect "$language: handler" "$(grep -c 'libc:open: .*"/none", .*ret = -1,' handled.out)" 1
	timeout 60 ./trail ./crash >trail.out 2>&1 || fail "$language: trail: $(cat trail.out)"
	grep -q "crash.c:" trail.out || fail "$language: trail shows no line: $(cat trail.out)"
	"$WAYMARK_BUILD/cli/waymark" record -o "spans-$language" -- ./spans 2>words ||
		fail "$language: record: $(cat words)"
	./events "spans-$language" >events.out || fail "$language: events"
	grep -q '^ *500  site:fetch:end$' events.out || fail "$language: events: $(cat events.out)"
	./places ./spans 'marker:*:*' >places.out || fail "$language: places"
	grep -q 'site:error(page, reason)  .*spans.c:[0-9]' places.out ||
		fail "$language: places: $(cat places.out)"
	follow
	if why=$(lacks breakpoint-write breakpoint-signal); then
		echo "without stores: $why"
	else
		store
		reserve
	fi
done
exit $failed
