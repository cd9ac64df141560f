#!/bin/bash
# SPDX-License-Identifier: MIT
# `waymark watch`: what it shows of who wrote a variable, beside what the program knows of it.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs breakpoint-write breakpoint-access breakpoint-execute breakpoint-signal

# watch STATUS ARGUMENT...: its table in ./out, its words in ./words; bounded
watch()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" watch "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "watch $*: status $got, expected $wanted: $(cat words)"
}

# shows TEXT: a line of the table or the history that looks so
shows() { grep -q -- "$1" out || fail "not shown: $1: $(cat out words)"; }

build_target watch/steps.c
line() { grep -n "LINE $1" "$source_dir/tests/targets/watch/steps.c" | cut -d: -f1; }

# Who, how often, and the program's own end and output. By line, four threads are one row.
watch 5 -n 3 count ./steps
shows "^ *400  *4 threads  add (steps.c:$(line add))  1 \.\. 400$"
[ "$(grep -c ' -> ' out)" = 3 ] || fail "not three of the history: $(cat out)"
watch 5 -n 3 --by-thread --rows 2 count ./steps
[ "$(grep -c "^ *100  *[0-9]*  add (steps.c:$(line add))" out)" = 2 ] || fail "not two rows: $(cat out)"
shows "^-- 2 more: 200 hits; --rows 0 shows all$"
watch 5 -n 3 -t count ./steps
[ "$(awk '/add \(steps/ && !/->/ { sum += $1 } END { print sum }' out)" = 400 ] || fail "not 400 additions: $(cat out)"
[ "$(grep -c "^ *100  *[0-9]*  add (steps.c:$(line add))" out)" = 4 ] || fail "not four threads of 100 each: $(cat out)"
grep -qx 400 out || fail "the program's own output is missing: $(cat out)"
[ "$(grep -c ' -> ' out)" = 3 ] || fail "not three of the history: $(cat out)"
shows "add (steps.c:$(line add))  399 -> 400$"
grep -q "^waymark: watch:count: 400 hits$" words || fail "$(cat words)"

# A name with brackets is that name.
printf 'struct { int cents; } accounts[3];
int main(void) { for (int i = 0; i < 5; i++) { accounts[2].cents += i + 1; __asm__ volatile("" ::: "memory"); } return 0; }\n' >cents.c
cc -g -O0 cents.c -o cents || exit 1
run 0 -e 'watch:accounts[2].cents' -o cents.trace -- ./cents
expect "dump --event with brackets" "$("$waymark" dump --event 'watch:accounts[2].cents' cents.trace | grep -c accounts)" 5
expect "dump --event with brackets and a glob" "$("$waymark" dump --event 'watch:accounts[2].*' cents.trace | grep -c accounts)" 5
expect "dump --event with a glob" "$("$waymark" dump --event 'watch:*.cents' cents.trace | grep -c accounts)" 5

# Each as it comes: values follow each other, without a gap, whichever thread wrote them.
watch 5 -f count ./steps
awk '/ -> / { if ($(NF - 2) + 1 != $NF || (n++ && $(NF - 2) != last)) exit 1; last = $NF } END { exit n != 400 }' out ||
	fail "not a chain of 400: $(grep ' -> ' out | head -n 500)"

# Values as their type has them; pointers are followed once; reads and writes are distinguished.
watch 5 -f color ./steps
shows "paint (steps.c:$(line paint))  RED -> RED$"
shows "paint (steps.c:$(line paint))  GREEN -> BLUE$"
watch 5 -f spot ./steps
shows "{x = 0, y = 0} -> {x = 1, y = 0}$"
shows "{x = 1, y = 0} -> {x = 1, y = -2}$"
watch 5 -f '*pointer' ./steps
shows "  0 -> 7$"
watch 5 -n 0 count:rw ./steps
shows "^ *1  *[0-9]*  look (steps.c:$(line look)) *0, read$"
watch 5 -n 0 paint:x ./steps
shows "^ *3  *[0-9]*  paint (steps.c:"
# With callers it has as many fields as a write has: these are no values, and say nothing of how.
watch 5 -f paint:x/bt=4/ ./steps
shows "paint (steps.c:[0-9]*)$"
! grep -q ' -> \|, read\|or before' out || fail "x with callers: $(cat out)"
# A jump that reads its target from the watched word: the access is unknown.
watch 5 -n 0 leads_to:rw ./steps
shows "^ *1  *[0-9]*  ? "
watch 5 -n 0 'count/if=value==250/' ./steps
shows "^ *1  *[0-9]*  add (steps.c:$(line add)) *250$"
grep -q "399 did not meet the condition" words || fail "$(cat words)"

# Several at a time; as JSON.
watch 5 -n 2 --json -e color -e spot.y ./steps
python3 - out <<'END' || fail "--json: $(cat out)"
import json, sys
text = open(sys.argv[1]).read() # the program has written before
said = json.loads(text[text.index('{"'):])
assert said["hits"] == 4 and said["status"] == 5 and said["error"] is None, said
assert [(w["watch"], w["function"], w["count"], w["last"]) for w in said["writer"]] == [
    ("color", "paint", 3, "BLUE"), ("spot.y", "main", 1, "-2")], said
assert [(l["watch"], l["function"], l["threads"], l["count"], l["first"], l["last"], l["last_exact"]) for l in said["writer_line"]] == [
    ("color", "paint", 1, 3, "RED", "BLUE", True), ("spot.y", "main", 1, 1, "-2", "-2", True)], said
assert [(h["watch"], h["before"], h["after"]) for h in said["hit"]] == [("color", "GREEN", "BLUE"), ("spot.y", "0", "-2")], said
assert [(w["spec"], w["hits"], w["missed"]) for w in said["watch"]] == [("watch:color", 3, 0), ("watch:spot.y", 1, 0)], said
END

# A value in several registers is printed by its members, each with its own type.
build_target watch/parts.c -O0
"$waymark" watch whole -- ./parts >parts_out 2>/dev/null || fail "parts: $(cat parts_out)"
# tests/guest/list.txt has the reason
[ -n "${WAYMARK_GUEST:-}" ] || for line in 'whole.size  main (parts.c:[0-9]*)  0 -> 1.5' \
	'whole.at\[1\]  main (parts.c:[0-9]*)  {x = 0, y = 0} -> {x = 0, y = 7}' \
	'whole.name  main (parts.c:[0-9]*)  "\(\\000\)*" -> "n\(\\000\)*"'; do
	grep -q "$line" parts_out || fail "parts: no $line in $(cat parts_out)"
done

# A running process: for a time, and until Ctrl-C; it continues.
start ./steps on
await_running "$pid"
watch 0 --for 300ms -p "$pid" count
shows "^ *[0-9]*  *$pid  add (steps.c:$(line add))"
timeout --preserve-status -s INT -k 10 1 "$waymark" watch -p "$pid" count >out 2>words
[ $? -eq 0 ] || fail "Ctrl-C: $(cat words)"
shows "^ *[0-9]*  *$pid  add (steps.c:$(line add))"
kill -0 "$pid" || fail "the program did not continue"
# On a terminal the table stays where it is.
if command -v script >/dev/null; then
	timeout 20 script -qec "'$waymark' watch --for 1s -p $pid count" /dev/null >out 2>&1 </dev/null
	grep -q $'\033\\[[0-9]*A\033\\[J' out || fail "on a terminal: $(cat -v out)"
	# However narrow it is: a line that continues in the next would be counted as one. The last table is printed whole.
	timeout 20 script -qec "stty cols 30; '$waymark' watch --for 1s -n 0 -p $pid -e count -e 'count+4/4'" /dev/null >out 2>/dev/null </dev/null
	sed -n $'/\033/q;p' out | tr -d '\r' | awk 'length > 30' >longer
	[ ! -s longer ] || fail "longer than the terminal is wide: $(cat longer)"
	tr -d '\r' <out | grep -q '^.\{30\}$' || fail "no line was cut: $(cat -v out)"
	grep -q "add (steps.c:$(line add))" out || fail "the last is cut, too: $(cat -v out)"
fi

# The one with the planted bug.
cc -g -O1 -pthread "$source_dir/examples/corrupt.c" -o corrupt || exit 1
watch 1 'accounts[2].cents' ./corrupt
shows "^ *1  *[0-9]*  write_name (corrupt.c:$(grep -n "= '.0'" "$source_dir/examples/corrupt.c" | cut -d: -f1))"

# Who executes another program is not taken for that one: the same address is another function there.
build_target watch/executes.c -no-pie -o first
build_target watch/executes.c -no-pie -DSECOND -o second
watch 0 -n 0 w ./first
shows "^ *500  *[0-9]*  write_first (executes.c:"
shows "^ *500  *[0-9]*  write_second (executes.c:"

# Two programs have a variable of one name: each one's values are of the type that it has there.
watch 0 -n 0 state ./first in-a-child
shows "write_first (executes.c:[0-9]*)  *GREEN$"
shows "write_second (executes.c:[0-9]*)  *DOWN$"

# A process and its children, those that are there and those to come.
sh -c './steps on & ./steps on & sleep 30; true' >/dev/null &
shell=$!
started+=("$shell")
disown "$shell"
are_running()
{
	local both
	mapfile -t both < <(pgrep -P "$shell" -x steps)
	[ ${#both[@]} = 2 ] && is_running "${both[0]}" && is_running "${both[1]}"
}
await are_running || fail "the shell's two children do not run"
watch 0 --for 1s --tree -n 0 -p "$shell" count@steps
shows "^ *[0-9]*  *2 threads  add (steps"
# shellcheck disable=SC2046 # numbers
kill -9 "$shell" $(ps -o pid= --ppid "$shell")

# When the reader of the output has gone, watching ends, and the program continues; a full disk is reported.
./steps on >/dev/null &
steps=$!
started+=("$steps")
disown "$steps"
await_running "$steps"
timeout -k 5 60 "$waymark" watch -f count -p "$steps" 2>words | head -1 >out
[ "${PIPESTATUS[0]}" = 0 ] || fail "without a reader: status ${PIPESTATUS[0]}: $(cat words)"
shows "add (steps.c"
if [ -w /dev/full ]; then
	for how in "-f" "--for 300ms"; do
		# shellcheck disable=SC2086 # words
		timeout -k 5 60 "$waymark" watch $how count -p "$steps" >/dev/full 2>words
		expect "$how: status with a full disk" $? 1
		grep -q "No space left on device: standard output" words || fail "$how: a full disk: $(cat words)"
	done
fi
kill -0 "$steps" || fail "the program has ended with its reader"
kill -9 "$steps"

# An exchange overwrites its operand: the instructions before it show that.
for level in -O0 -O1 -O2; do
	build_target watch/exchange.c $level
	watch 0 word ./exchange
	shows ' 1 -> 2$'
	shows ' 3 -> 8$'
done

# Nothing shows the new value of a shift: it is read, and marked.
watch 0 shifted ./exchange
shows ' 1 -> ~2$'
shows ' ~8 -> 9$'
watch 0 --json 'shifted/if=value==2/' ./exchange
shows '"before_exact":true,"after":"2","after_exact":false'
shows '"uncertain":3,"uncertain_filtered":2'
watch 0 'shifted/if=value==2/' ./exchange
grep -q "1 met the condition by a value that is uncertain" words ||
	fail "a condition on an uncertain value: $(cat words)"

# What can't be, said.
bad_watch()
{
	local text=$1 status=$2
	shift 2
	watch "$status" "$@"
	grep -q -- "$text" words || fail "watch $*: not said: $text: $(cat words)"
	[ ! -s out ] || fail "watch $*: it shows something: $(cat out)"
}
bad_watch "no such variable" 1 nosuch ./steps
bad_watch "the compiler removed the variable" 1 unread ./steps
bad_watch "what is to be watched" 2
bad_watch "name a process with -p, or a program" 2 count
bad_watch "not both" 2 -p 1 count ./steps
bad_watch "the children of a program that is started" 2 --tree count ./steps
bad_watch "there is no option --histroy" 2 --histroy 3 count ./steps
bad_watch "did you mean history" 2 --histroy 3 count ./steps
bad_watch "--history takes a number from 0 to 1000000, not many" 2 -n many count ./steps
bad_watch "--rows takes a number from 0 to 1000000, not many" 2 --rows many count ./steps
bad_watch "--for takes seconds, or a number with" 2 --for ever count ./steps
bad_watch "--pid takes numbers, such as 12 or 12,34, not me" 2 -p me count
bad_watch "No such process" 1 -p 4194303 count
bad_watch "No such file or directory: ./nonexistent" 1 count ./nonexistent
bad_watch "no processor watches reads alone" 1 count:r ./steps
# A part of a value is called as it can be typed.
watch 0 '*head' -- ./parts
shows '(\*head)\.next'
exit $failed
