#!/bin/bash
# SPDX-License-Identifier: MIT
# Others have debug registers of the program: gdb its watchpoints, perf its events. As many as are left can be watched, and who is
# refused names the holder. The program and the debugger behave as without it.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
command -v gdb >/dev/null || skip "there is no gdb here"

as=()	 # who is asked: root, or a user
spare=(small rate narrow raced) # no thread writes them in this mode

# debugs COMMAND...: gdb on $program, which runs on under it; its pid in $debugger, its words in ./gdb_out
debugs()
{
	local more=() command
	for command in "$@"; do more+=(-ex "$command"); done
	rm -f gdb_out # what the gdb before this one said
	"${as[@]}" timeout 60 gdb -q -nx -batch -iex 'set debuginfod enabled off' "${more[@]}" -ex 'echo armed\n' -ex continue \
		-p "$program" </dev/null >gdb_out 2>&1 &
	await_gdb "$program" gdb_out
	debugger=$(field "$program" TracerPid)
}

# As at a terminal's Ctrl-C; gdb -batch detaches then.
debugger_leaves()
{
	[ "$debugger" -eq 0 ] || kill -INT "$debugger"
	await ! is_traced "$program" || fail "gdb did not leave: $(cat gdb_out)"
}

# records NAME STATUS ARGUMENT...: $program, as whom it is asked
records()
{
	local name=$1 status=$2 got
	shift 2
	rm -rf "$name"
	"${as[@]}" timeout -k 5 60 "$waymark" record --json -o "$name" "$@" -p "$program" >out 2>words
	got=$?
	[ $got -eq "$status" ] || fail "$who: $name: status $got, expected $status: $(cat words)"
}

# sees N: gdb stopped for nothing
undisturbed() { ! grep -q "SIGTRAP" gdb_out || fail "$who: gdb saw Waymark's signals: $(cat gdb_out)"; }

begin()
{
	"${as[@]}" ./watched forever 0 2 >forever_out &
	program=$!
	started+=("$program")
	await is_napping "$program" 2 || fail "$who: the program's threads do not run"
}

end()
{
	ends_well "$program" forever_out "$who"
}

before_us()
{
	local held
	for held in 1 2 3; do
		local watchpoints=() i
		for ((i = 0; i < held; i++)); do watchpoints+=("watch ${spare[i]}"); done
		debugs "${watchpoints[@]}"
		records "beside$held" 0 --for 400ms -e watch:in_turn
		[ "$(json recorded)" -gt 10 ] || fail "$who: beside $held watchpoints of gdb's: $(cat words)"
		expect "$who: missed beside $held watchpoints" "$(json missed)" 0
		chain "beside$held" in_turn
		says "another process traces it already"
		if [ $held -lt 3 ]; then
			records "two$held" 0 --for 400ms -e watch:in_turn -e watch:counted
			# each of the two threads may have been between them when it began, or when it ended
			between=$(("$("$waymark" dump "two$held" | grep -c 'watch:counted')" - "$("$waymark" dump "two$held" | grep -c 'watch:in_turn')"))
			[ ${between#-} -le 2 ] || fail "$who: both are reported, beside $held: one $between times more"
		else
			records two3 1 -e watch:in_turn -e watch:counted
			says "1 free, 2 are wanted"
			says "gdb $debugger traces it"
		fi
		undisturbed
		debugger_leaves
	done
}

# A debugger's registers stay its threads' own when it has left: the kernel gives none back before the thread ends.
left_behind()
{
	records left 0 --for 300ms -e watch:in_turn
	expect "$who: missed behind gdb" "$(json missed)" 0
	records left 1 -e watch:in_turn -e watch:counted
	says "1 free, 2 are wanted"
	says "3 of them, unless a holder named here has them, were set by a debugger that has gone"
}

# gdb comes when all four are taken, from outside and from inside.
behind_us()
{
	local four=(-e watch:in_turn -e watch:counted -e watch:raced -e watch:small)
	local outside=(-e watch:in_turn/outside/ -e watch:counted/outside/ -e watch:raced/outside/ -e watch:small/outside/)
	local tool
	records_aside outside "${outside[@]}"
	debugs "watch narrow"
	await grep -q "No space left on device\|Could not insert hardware watchpoint" gdb_out ||
		fail "$who: gdb had a fifth register: $(cat gdb_out)"
	goes_on "$program" "$who: gdb came"
	aside_ends || fail "$who: from outside, under gdb: $(cat aside_words)"
	cp aside_out out
	[ "$(json recorded)" -gt 10 ] || fail "$who: from outside, gdb came: $(cat aside_words)"
	chain outside in_turn
	undisturbed
	[ "$(field "$program" TracerPid)" = 0 ] || debugger_leaves

	records_aside inside "${four[@]}"
	debugs "handle SIGTRAP nostop noprint pass"
	await ! has_all_registers || fail "$who: gdb took over, and the recorder keeps its registers"
	aside_ends || fail "$who: from inside, under gdb: $(cat aside_words)"
	grep -q "taken away before the end: another process traces it already" aside_words ||
		fail "$who: gdb took over, without a report: $(cat aside_words)"
	debugger_leaves
	records after 0 --for 300ms -e watch:in_turn
	[ "$(json recorded)" -gt 10 ] || fail "$who: once gdb has gone: $(cat words)"
	expect "$who: missed once gdb has gone" "$(json missed)" 0
}

# records_aside NAME ARGUMENT...: in the background until aside_ends, and armed; its pid in $tool
records_aside()
{
	local name=$1
	shift
	rm -rf "$name"
	"${as[@]}" timeout -k 5 60 "$waymark" record --json -o "$name" "$@" -p "$program" >aside_out 2>aside_words &
	tool=$!
	await has_all_registers || fail "$who: $name: not armed: $(cat aside_words)"
}

has_all_registers()
{
	[ "$("${as[@]}" "$waymark" claims -p "$program" | grep -c '^debug-register .* 1  *4 ')" -ge 4 ]
}

aside_ends()
{
	kill -TERM "$tool"
	wait "$tool"
}

# perf writes its file's head once its events are open
perf_has_begun()
{
	[ -s perf.data ] || has_ended "$perf"
}

perf_beside()
{
	local events=() variable
	command -v perf >/dev/null || {
		echo "no perf here: its events are not tried"
		return
	}
	rm -f perf.data
	for variable in "${spare[@]}"; do
		events+=(-e "mem:0x$(address_of "$variable"):w")
	done
	"${as[@]}" timeout 60 perf record -o perf.data "${events[@]}" -p "$program" >perf_out 2>&1 &
	local perf=$! holder=
	await perf_has_begun || fail "$who: perf does not begin"
	! has_ended $perf || {
		echo "perf can't record here: $(tail -1 perf_out)"
		return
	}
	records refused 1 -e watch:in_turn
	says "0 free, 1 are wanted"
	holder=$(grep -o "perf [0-9]* has [0-9]* perf events open" words | awk '{ print $2 }')
	[ -n "$holder" ] || fail "$who: perf is not named: $(cat words)"
	kill -INT "$holder"
	wait $perf
}

address_of()
{
	local base
	base=$(awk '/watched/ { print substr($1, 1, index($1, "-") - 1); exit }' "/proc/$program/maps")
	printf '%x' $((0x$base + 0x$(nm ./watched | awk -v name="$1" '$3 == name { print $1 }')))
}

all()
{
	who=$1
	begin
	before_us
	left_behind
	end
	begin
	behind_us
	end
	begin
	perf_beside
	end
}

# root may do more than is asked for: who watches is an ordinary user.
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod 711 "$folder" && mkdir -m 777 users users/run && cp watched users/ && cd users || exit 1
	chmod 755 ../waymark ../*.so watched 2>/dev/null
	chown 65534:65534 run && chmod 700 run
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups env "XDG_RUNTIME_DIR=$folder/users/run")
fi
all user
exit $failed
