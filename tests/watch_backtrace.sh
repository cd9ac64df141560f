#!/bin/bash
# SPDX-License-Identifier: MIT
# Backtraces of watches: the frames that gdb prints, in programs without frame pointers too; in
# `watch`, `dump` and `report`.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-execute
command -v gdb >/dev/null || skip "no gdb"


# build OPTION...: ./calls and its library; -g is theirs
build()
{
	build_target watch/calls.c "$@" -DLIBRARY -shared -fPIC -o libthrough.so
	build_target watch/calls.c "$@" -L. -lthrough -Wl,-rpath,"$PWD"
}

# Frames as "FUNCTION FILE:LINE", of our own sources, and handlers', with a line "hit" before each
# hit. Two are left out: the innermost, where gdb has the instruction behind the store; and those of
# main()'s last store, whose stack gdb guesses.
cat >gdb.commands <<'END'
set print frame-arguments none
set width 0
set debuginfod enabled off
handle SIGUSR1 nostop noprint pass
watch value
commands
silent
echo hit\n
bt 30
continue
end
run
END
frames()
{
	local at='^ *#[1-9][0-9]* *\(0x[0-9a-f]* in \)\{0,1\}'
	sed -n -e 's/.*watch:value: .*/hit/' -e 's/^hit$/hit/p' \
		-e 's/^ *#[1-9][0-9]* *<signal handler called>.*/<signal handler called>/p' \
		-e "s/$at"'\([a-z_]*\)\(\.[a-z0-9.]*\)\{0,1\} (.*\<\(calls\.c:[0-9]*\))\{0,1\}$/\2 \4/p' |
		awk '/hit/ { n++ }
			{ line[NR] = $0; of[NR] = n }
			END { for (i = 1; i <= NR; i++) if (of[i] < n) print line[i] }'
}

for options in -O2 '-O2 -fno-omit-frame-pointer' -O0 \
	'-O3 -fno-optimize-sibling-calls -fcf-protection'; do
	# shellcheck disable=SC2086 # they are words
	build $options
	timeout -k 5 60 gdb -nx -batch -x gdb.commands ./calls 2>/dev/null | frames >of_gdb
	watches stacks 0 -e watch:value/bt/ -- ./calls
	"$waymark" dump stacks | frames >ours
	expect "$options: hits" "$(grep -c hit of_gdb)" 6
	cmp -s of_gdb ours || fail "$options: other frames than gdb's: $(diff of_gdb ours)"
	expect "$options: handlers" "$(grep -c 'signal handler' ours)" 1
	expect "$options: functions in line" "$(grep -c '^outer calls.c' ours)" 4
done

# With -O2 the backtrace ends at an overwritten return address. At -O0 the frame pointer finds the
# frame.
build -O2
watches stacks 0 -e watch:value/bt/ -- ./calls
expect "an overwritten stack" "$("$waymark" dump stacks | tail -n 1)" "    #1 0x1234"
expect "hits without a caller" "$("$waymark" dump stacks | grep -c 'caller1 = 0x0,')" 0

# The same in `watch`, in JSON, and in what is left out.
"$waymark" watch -f value/bt/ ./calls >table 2>words || fail "watch: $(cat words)"
"$waymark" dump stacks | sed -n 's/^ *#/#/p' >of_dump
sed -n 's/^ *#/#/p' table >of_watch
cmp -s of_dump of_watch || fail "watch has other frames than dump: $(diff of_dump of_watch)"
"$waymark" watch --json value/bt/ ./calls >json 2>words || fail "watch --json: $(cat words)"
"$waymark" dump --json stacks >lines
"$waymark" report --json stacks >sum
python3 - json lines sum <<'END' || fail "JSON: $(head -c 2000 json)"
import json, sys
watched, dumped, sum = (open(name).read().splitlines() for name in sys.argv[1:])
watched, dumped = json.loads(watched[-1]), [json.loads(line) for line in dumped]
def names(frames):
    return [(f["function"], f["source"], f["line"], f["inlined"], f["signal"]) for f in frames]
assert [f for e in dumped for f in names(e["frame"])] == names(watched["frame"])
first = dumped[0]["frame"]
assert [f["inlined"] for f in first[:4]] == [False, True, True, False], first
caller = dumped[0]["fields"]["caller1"]
assert first[1]["address"] == first[2]["address"] == first[3]["address"] == caller
assert [f["signal"] for e in dumped for f in e["frame"]].count(True) == 1
# each place counts once for each thread; the report has what the watch has
def places(writers):
    return sorted((w["function"], w["line"], w["count"]) for w in writers)
for table in "writer_line", "writer":
    assert places(json.loads(sum[-1])[table]) == places(watched[table]), sum
END
"$waymark" report --csv stacks | grep -A1 ^watch,count,threads, | grep -q '^"value",' || fail "report --csv: no writers"
"$waymark" report stacks >table || fail "report: $?"
grep -q '^ *[5-9]  *2 threads  store (calls.c:' table || fail "report: $(cat table)"

# Without the files there are modules and offsets; and again with them, names.
mv calls away
"$waymark" dump stacks >gone
grep -q '^    #1 calls+0x[0-9a-f]*$' gone || fail "without the file: $(cat gone)"
mv away calls
"$waymark" dump stacks | grep -q '^    #1 inner (calls.c:' ||
	fail "the file is back, and has no names"

# Functions in line of headers: the user's own line is there.
build_target watch/header.cc -O2
"$waymark" watch total ./header >table 2>words || fail "watch total: $(cat words)"
line=$(grep -n LINE "$source_dir/tests/targets/watch/header.cc" | cut -d: -f1)
grep -q "operator+= (atomic_base.h:[0-9]*) in main (header.cc:$line)" table ||
	fail "functions in line: $(cat table)"

# Without call frame information the agent follows frame pointers. Compilers give store() none, so
# its caller is left out. Without any, the backtrace ends at once or in other code; the program
# continues.
without()
{
	build_target watch/calls.c -O2 "$1" -fno-asynchronous-unwind-tables -fno-exceptions \
		-fcf-protection=none -L. -lthrough -Wl,-rpath,"$PWD"
	watches bare 0 -e watch:value/bt/ -- ./calls
	expect "$1, and no frame information: hits" \
		"$("$waymark" dump bare | grep -c 'watch:value')" 7
}
without -fno-omit-frame-pointer
"$waymark" dump bare | sed -n '2,/watch:value/p' | tr -d '\n' |
	grep -q "#0 store .*#4 recurse .*#5 main (calls.c:" ||
	fail "no frame information: $("$waymark" dump bare)"
without -fomit-frame-pointer

# More than there may be: the most is said.
"$waymark" watch value/bt=11/ ./calls >out 2>words && fail "bt=11 is accepted"
grep -q '"bt=11" (column 13) takes a number from 1 to 10' words || fail "bt=11: $(cat words)"
exit $failed
