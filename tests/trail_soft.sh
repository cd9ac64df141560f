#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of trails by the engine: programs behave as natively, whichever process is killed.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"

needs_engine
needs_oracle
soft=(-e trail/soft/)

# gone PID
gone()
{
	await has_ended "$1" && return
	fail "process $1 does not end"
	kill -9 "$1"
}

for ending in "${endings[@]}"; do
	ends "$ending" "by translation" "${soft[@]}"
done
grep -q '"origin":"soft"' out || fail "--json names no origin"

keeps_streams "${soft[@]}"

# The same instructions as by step.
for mode in "l 50" "i 0" "b 0"; do
	rm -rf by_soft by_step
	# shellcheck disable=SC2086 # several words
	timeout 60 "$waymark" record "${soft[@]}" -o by_soft -- ./trailed $mode 2>words
	# shellcheck disable=SC2086 # several words
	timeout 60 "$waymark" record -e trail/auto/ -o by_step -- ./trailed $mode 2>words
	for name in by_soft by_step; do
		timeout 60 "$waymark" trail --instructions -n 0 $name 2>words | sed '1d' |
			grep -o 'trailed+0x.*' | grep -v '(' | sed 's/ *->.*//' >$name.text
	done
	cmp by_soft.text by_step.text || fail "$mode: by soft and by step"
	[ -s by_soft.text ] || fail "$mode: nothing was shown"
done

# What the engine maps is not beside the program's libraries: their translations need the addresses there. A compiler has the names of
# sanitizers' functions in its data.
build_target trail/beside.c -O0
rm -rf ran
run 0 "${soft[@]}" -o ran -- ./beside
at=$(sed -n 's/^\([0-9a-f]*\)-.*waymark-trail.*/\1/p' out | head -1)
[ ${#at} = 12 ] && [[ $at < 4d0000000000 ]] || fail "the channel is at '$at': $(cat out words)"

# What takes a while.
head -c 2000000 "$waymark" >data
gzip -nc data >compressed || exit 1

# has_program: the recorder runs gzip, its number is in $child; or that is over
has_program()
{
	has_child $recorder gzip || has_ended $recorder
}

# The recorder is killed: the program ends as without it, and what was recorded is there.
for number in 1 2 3; do
	rm -rf killed
	"$waymark" record "${soft[@]}" -o killed -- gzip -nc data >by_engine 2>words &
	recorder=$!
	await has_program || fail "gzip does not begin: $(cat words)" # killed before, there is no program
	sleep 0.0$number # different moments
	kill -9 $recorder 2>/dev/null
	wait $recorder 2>/dev/null
	[ -z "$child" ] || gone "$child"
	cmp compressed by_engine || fail "the recorder was killed: another output"
done

# Who reads the channel is.
"$waymark" record "${soft[@]}" -o unread -- gzip -nc data >by_engine 2>words &
recorder=$!
has_reader()
{
	{ has_child $recorder waymark-tracer && is_recording unread; } || has_ended $recorder
}
await has_reader || fail "the channel has no reader: $(cat words)"
kill -9 "$child" 2>/dev/null
wait $recorder
cmp compressed by_engine || fail "the reader was killed: another output"

# The program is, at any point: its trail reads to there.
for number in 02 05 1 2; do
	for recorder in soft soft,last=4M; do
		rm -rf ended
		# killed after different times; the shell that is recorded expands its own number
		# shellcheck disable=SC2016
		run 137 -e trail/$recorder/ -o ended -- sh -c "(sleep 0.$number; kill -9 \$\$) & exec \"$folder/trailed\" l 2147483647"
		trail ended
		grep -v trail:thread shown | tail -1 | grep -q trail:end || fail "killed after 0.$number s: $(tail -1 shown)"
	done
done

# The flight recorder.
run 139 --json -e trail/soft,last=64K/ --on crash -o crash -- ./trailed k 11
says "by signal SIGSEGV; the last instructions:"
# Another thread than the main one crashes: that one is named, and its way is shown.
build_target trail/crashes.c
# line FILE MARK: its number
line() { grep -n "LINE $2" "$source_dir/tests/targets/trail/$1" | cut -d: -f1; }
for shell in "" "sh -c"; do
	rm -rf crashed
	# shellcheck disable=SC2086 # none, or several words
	run 139 --json -e trail/soft,last=64K/ --on crash -o crashed -- $shell ./crashes
	tid=$(sed -n 's/^thread //p' out)
	grep -q "\"fired\":true,\"pid\":[0-9]*,\"tid\":$tid,\"signal\":11" out || fail "$shell: thread $tid is not named: $(grep -o '"on":.*' out)"
	grep -q "killed by SIGSEGV at crashes+" words || fail "$shell: its way is not shown: $(tail -3 words)"
	inlined="reads (crashes.c:$(line crashes.c reads)) in crashes"
	grep -A1 "^  #0   $inlined (crashes.c:$(line crashes.c crashes))\$" words |
		grep -q "^  #1   runs (crashes.c:$(line crashes.c runs))  unused=0x0\$" ||
		fail "$shell: no backtrace: $(grep '^  #' words)"
done
# The other threads ended with the process.
rm -rf crashed
run 139 "${soft[@]}" -o crashed -- ./crashes
timeout 60 "$waymark" trail -n 1 crashed >shown 2>&1
threads=$(grep -c ", by soft: " shown)
[ "$threads" -ge 2 ] && [ "$(grep -c 'killed by SIGSEGV' shown)" = 1 ] &&
	[ "$(grep -c 'ended with the process' shown)" = $((threads - 1)) ] || fail "threads' ends: $(cat shown)"
grep -q "killed by SIGSEGV at crashes+" shown || fail "the culprit is not named: $(cat shown)"

# The backtrace after abort() leads out of libc to the program's functions, and through a handler to what that interrupted.
build_target trail/aborts.c -fno-optimize-sibling-calls
run 134 -e trail/soft,last=1M/ --on crash -o aborted -- ./aborts
grep '^  #' words | sed 's/^  #[0-9]* *//' | tail -4 >frames
deep="deep (aborts.c:$(line aborts.c deep))"
printf '%s\n' "checks (aborts.c:$(line aborts.c checks))  text=0x0" "$deep" "$deep  x 100" \
	"main (aborts.c:$(line aborts.c main))" | cmp -s - frames ||
	fail "aborts: its backtrace: $(grep '^  #' words)"
run 134 -e trail/soft,last=1M/ --on crash -o aborted_handling -- ./aborts handling
grep -A1 "#[0-9]* *handles (aborts.c:$(line aborts.c handles))\$" words |
	grep -q '^  the handler of SIGUSR1, which interrupted$' ||
	fail "aborts in a handler: its backtrace: $(grep '^  [#t]' words)"
grep '^  #' words | tail -1 | grep -q "main (aborts.c:$(line aborts.c raises))\$" ||
	fail "aborts in a handler: its backtrace: $(grep '^  [#t]' words)"

# The state at the signal: the fault, the registers, and the values of parameters, in outer frames
# too.
build_target trail/values.c -O0
while read -r how status fault; do
	rm -rf found
	run "$status" --json -e trail/soft,last=64K/ --on crash -o found -- ./values "$how"
	values='how=[A-Z]*, text=0x1232, pair={first = 7, second = -3}, ratio=0.5'
	grep -q "^  #0   faults (values.c:[0-9]*)  $values\$" words ||
		fail "values $how: no parameters: $(grep '^  #' words)"
	grep -q "^  #1   outer (values.c:[0-9]*)  number=4658, name=0x7f" words ||
		fail "values $how: none of the caller's: $(grep '^  #' words)"
	grep -q "^ *$fault\$" words || fail "values $how: another fault than '$fault': $(cat words)"
	grep -q '^ *rip 0x[0-9a-f]* *rflags 0x' words ||
		fail "values $how: no registers: $(cat words)"
	timeout 60 "$waymark" trail --json -n 0 found >shown 2>&1
	grep -A1 '"type":"crash_frame","tid":[0-9]*,"frame":0,"address":' shown |
		grep -q '"type":"argument","tid":[0-9]*,"frame":0,"name":"how","c_type":"enum how","value":"[A-Z]*"}' ||
		fail "values $how: not in --json: $(tail -1 shown)"
done <<'WAYS'
1 139 read of address 0x1232: nothing is mapped there
2 139 write of address 0x1232: nothing is mapped there
3 136 an integer was divided by 0, or the quotient has too many bits
4 139 the processor does not say which address: one that is not canonical, or an instruction that is not allowed
WAYS
unknown='"access":null,"address":null,"sender":null'
grep -A1 "\"type\":\"crash\",.*\"code\":128,\"cause\":\"[^\"]*\",$unknown" shown |
	grep -q '"type":"register",.*"name":"rax","value":"0x8000000000000000"' ||
	fail "no registers in --json: $(tail -1 shown)"
# Optimised: values that the call passes, and constants of the compiler's; ? for a lost value.
build_target trail/aborts.c -O2 -o aborts_fast
run 134 -e trail/soft,last=1M/ --on crash -o aborted_fast -- ./aborts_fast
grep -q "checks.*(aborts.c:$(line aborts.c checks))  text=0x0\$" words ||
	fail "aborts, optimised: no parameter: $(grep '^  #' words)"
grep -q '^ *the program sent it to itself$' words ||
	fail "aborts: who sent the signal: $(cat words)"

# A call through a null pointer has a place as any other has.
build_target trail/leaps.c
for at in 0x0 0x1 0x10; do
	rm -rf leapt
	run 139 -e trail/soft,last=64K/ --on crash -o leapt -- ./leaps $at
	grep -A1 "^  #0   $at\$" words | grep -q '^  #1   main (leaps.c:' || fail "at $at: its backtrace: $(grep '^  #' words)"
	grep -A1 "killed by SIGSEGV at $at, which was jumped to at main+.*: call" words |
		grep -q " execution of address $at: nothing is mapped there\$" ||
		fail "at $at: $(cat words)"
	timeout 60 "$waymark" trail --json -n 1 leapt 2>&1 | grep '"type":"trail_event"' | tail -1 | grep -q "\"at_address\":\"$at\"" || fail "at $at: not in --json"
	rm -rf leapt
	run 3 -e trail/soft,last=64K/ -o leapt -- ./leaps $at handled
	timeout 60 "$waymark" trail -n 0 leapt 2>&1 | grep -q "signal SIGSEGV, handled by ends at $at, which was" || fail "at $at: its handler"
done

run 7 --json -e trail/soft,last=64K/ --on exit -o at_exit -- ./trailed l 20000
trail at_exit
grep -q trail:lost shown || fail "a small flight recorder held all"

# The engine counts what its own rings overwrote: of rounds that are all alike, and of rounds of two
# kinds, in random order. What the loader runs depends on where it is mapped: four blocks more or
# fewer.
build_target trail/rounds.c
printf '#!/bin/sh\nexec setarch -R "%s" "$@"\n' "$waymark" >placed
chmod 755 placed
! setarch -R true || placed=$folder/placed
for mode in 4000000 "4000000 mixed"; do
	rm -rf rounds.all rounds.last
	# shellcheck disable=SC2086 # several words
	waymark=${placed:-$waymark} run 0 --json -e trail/soft/ -o rounds.all -- ./rounds $mode
	all=$(json blocks)
	# shellcheck disable=SC2086
	waymark=${placed:-$waymark} run 0 --json -e trail/soft,last=1M/ --on exit -o rounds.last -- ./rounds $mode
	counted=$(($(json blocks) + $(json overwritten_before)))
	[ "$(json overwritten_before)" -gt $((all / 2)) ] && [ $counted -eq "$all" ] ||
		fail "rounds $mode: $counted blocks counted of $all: $(cat words)"
done
run 139 -e trail/soft,last=64K/ --on signal:SEGV -o by_signal -- ./trailed k 11
run 7 --json -e trail/soft,last=64K/ --on crash -o not -- ./trailed l 5
says "--on crash: it did not come to that; no trace was written"

# What can't be.
WAYMARK_ENGINE=/nowhere bad 1 "libwaymark-trail.so, was not found" "${soft[@]}" -- ./trailed l
(
	ulimit -v 100000
	timeout 60 "$waymark" record "${soft[@]}" -o limited -- ./trailed l 2>words
	echo $? >status
)
expect "ulimit -v" "$(cat status)" 1
printf '\177ELF\1\1\1%057d' 0 >small
chmod +x small
bad 1 "small" "${soft[@]}" -- ./small

exit $failed
