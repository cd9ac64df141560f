#!/bin/bash
# SPDX-License-Identifier: MIT
# Trails of programs where one module takes another one's place: by an exec, and by loading. Each half has its own
# functions, lines and sums. Code that a process made has the names of its perf map. Then what is said of trails that were deleted.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark

# has FILE TEXT...
has()
{
	local file=$1
	shift
	for text; do
		grep -qE -- "$text" "$file" || fail "expected '$text' in $file: $(head -40 "$file")"
	done
}

# shown STATUS ARGUMENT...: waymark, what it prints in ./out and ./words
shown()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "$*: status $got, expected $wanted: $(cat words)"
}

command -v cc >/dev/null || skip "no C compiler"
targets=$source_dir/tests/targets/trail
flags=("-I$source_dir" -O1 -g -ffreestanding -fno-stack-protector -nostdlib '-Wl,--build-id')

# Not PIE: both lie at one address.
cp "$targets/program.c" late.c
static=("${flags[@]}" -static -no-pie)
cc "${static[@]}" -DWORK=works_early -DTURNS=5 "-DNEXT=\"$folder/late\"" "$targets/program.c" \
	-o early && cc "${static[@]}" -DWORK=works_late -DTURNS=9 late.c -o late ||
	skip "no static program can be built"

timeout -k 5 60 "$waymark" record -e trail/soft/ -o went -- ./early >record.out 2>record.words
[ -e went/metadata ] || { cat record.words; skip "it can't be recorded here"; }
shown 0 trail --functions went
has out 'works_early  *early' 'works_late  *late'
shown 0 trail --branches -n 0 went
has out 'works_early\+.* program\.c:' 'works_late\+.* late\.c:'
shown 0 trail --calls -n 0 went
has out 'works_early \[early\] from .*program\.c:' 'works_late \[late\] from .*late\.c:'
shown 0 trail --calls --json -n 0 went
has out '"function":"works_early.*"from_module":"[^"]*/early"' '"function":"works_late.*"from_module":"[^"]*/late"'
shown 0 coverage went
has out 'FNDA:1,works_early' 'FNDA:1,works_late'
# the loop's line: 5 turns here, 9 there
line=$(grep -n LINE "$targets/program.c" | cut -d: -f1)
for turns in program.c=5 late.c=9; do
	sed -n "/SF:.*\/${turns%=*}/,/^end_of_record/p" out | grep -qE "^DA:$line,${turns#*=}\$" ||
		fail "turns of the loops: $(grep -E '^(SF|DA:$line,)' out)"
done
shown 0 export --format perf-script went
has out 'r-xp .*/early$' 'r-xp .*/late$'
[ "$(grep -n 'r-xp .*/late$' out | cut -d: -f1)" -gt "$(grep -n '/P/' out | head -1 | cut -d: -f1)" ] ||
	fail "late is mapped before early has run: $(cat out)"
shown 0 export --format folded went
has out 'works_early 1?[0-9]+' 'works_late [0-9]+'
shown 0 diff went went
shown 0 compress went
shown 0 trail --functions went
has out 'works_early  *early' 'works_late  *late'

# A library in another one's place, both by one descriptor after the other.
for name in one two; do
	cc "${flags[@]}" -shared -fPIC -Wl,-z,noseparate-code -DWORK="$name" "$targets/loads.c" \
		-o "$name.so" ||
		skip "no library can be built"
done
entry=$(nm one.so | awk '$3 == "one" { print "0x" $1 }')
[ "$entry" = "$(nm two.so | awk '$3 == "two" { print "0x" $1 }')" ] || skip "the libraries differ"
cc "${flags[@]}" -static -no-pie -DTIMES=4 -DENTRY="$entry" "-DFOLDER=\"$folder\"" \
	"$targets/loads.c" -o loads ||
	skip "no static program can be built"
timeout -k 5 60 "$waymark" record -e trail/soft/ -o loaded -- ./loads >record.out 2>record.words
shown 0 trail --functions --json loaded
for name in one two; do
	has out "\"calls\":2,.*\"function\":\"$name\",\"linkage\":\"$name\",\"module\":\"$folder/$name.so\""
done
shown 0 coverage --module '*.so' loaded
has out 'FNDA:2,one' 'FNDA:2,two'

# By the engine as well, whose words are read later than they were written; the same in a store.
for event in trail/soft/ trail/soft,last=4M/; do
	timeout -k 5 60 "$waymark" record -e "$event" -o soft -- ./loads >record.out 2>record.words
	shown 0 trail --functions --json soft
	for name in one two; do
		has out "\"calls\":2,.*\"function\":\"$name\",\"linkage\":\"$name\",\"module\":\"$folder/$name.so\""
	done
	rm -rf "${event//\//_}"
	mv soft "${event//\//_}"
done
shown 0 diff trail_soft_ trail_soft,last=4M_

# ---- plugins that take each other's place ----

build_target trail/plugins.c
for name in one two; do
	build_target trail/plugins.c -shared -fPIC "-DNAME=$name" "-DSIZE=$(grep -bo "$name" <<<'x one two' | cut -d: -f1)" -o "$name.so"
done
same=("$folder"/{one,two,one,two,two}.so)

# plugins EVENT ONE TWO ARGUMENT...: so many calls of one's function and of two's
plugins()
{
	local event=$1 name
	local -A calls=([one]=$2 [two]=$3)
	shift 3
	rm -rf plugged
	timeout -k 5 100 "$waymark" record -e "$event" -o plugged -- ./plugins "$@" >record.out 2>record.words ||
		fail "$event $*: status $?: $(cat record.words)"
	grep -qx "at one address" record.out || fail "$event $*: $(cat record.out)"
	shown 0 trail --functions --json -n 0 plugged
	for name in one two; do
		[ "$(sed -n "s/.*\"calls\":\([0-9]*\),.*\"function\":\"$name\".*\"module\":\"[^\"]*\/[a-z]*.so\".*/\1/p" out)" = "${calls[$name]}" ] ||
			fail "$event $*: not ${calls[$name]} calls of $name: $(grep -E 'one|two' out)"
	done
}

for event in trail/soft/ trail/soft,last=16M/; do
	plugins "$event" 20 30 "${same[@]}"
done
# each line, stack and branch has the name of its time
shown 0 coverage --module '*.so' plugged
has out 'FNDA:20,one' 'FNDA:30,two'
shown 0 export --format=folded plugged
has out 'main;.*calls;work;one [0-9]+' 'main;.*calls;work;two [0-9]+' 'other;calls;work;two [0-9]+'
shown 0 export --format=perf-script plugged
has out 'r-xp .*/one.so$' 'r-xp .*/two.so$'
shown 0 trail --calls -n 0 plugged
[ "$(grep -c ' one \[one.so\] from ' out)" -eq 20 ] || fail "calls: $(grep -w one out | head -30)"
[ "$(grep -c ' two \[two.so\] from ' out)" -eq 30 ] || fail "calls: $(grep -w two out | head -30)"
shown 0 trail --lines -n 0 plugged
has out ' 50 .*return sum'
# of one of them alone; and a child, whose plugins are its own
plugins trail/soft,only=one.so/ 20 "" "${same[@]}"
plugins trail/soft/ 20 30 "$folder"/{one,two}.so fork "$folder"/{two,one,two}.so
# Two thousand changes: what ran in between is not described again.
# shellcheck disable=SC2046 # words
plugins trail/soft/ 10000 10000 $(for ((i = 0; i < 1000; i++)); do echo "$folder"/{one,two}.so; done)
[ "$(du -sk plugged | cut -f1)" -lt 20000 ] || fail "2,000 changes: $(du -sk plugged)"

# Another build in the same path: the first one's file is not there any more, so nothing names it.
cp one.so first.so
cp two.so second.so
plugins trail/soft/ "" 10 "$folder"/{one,two}.so "$folder/second.so:$folder/one.so"
cp two.so second.so
plugins trail/soft/ "" "10
10" "$folder/first.so:$folder/one.so" "$folder"/{one,two}.so "$folder/second.so:$folder/one.so" "$folder"/one.so

# ---- what is gone ----

# A program that makes code, and names it for perf.
build_target trail/made.c

# made FOLDER: its process's perf map is in the trace alone
made()
{
	local maps=("$1"/.perf-*.map) pid
	[ -f "${maps[0]}" ] || fail "$1: no perf map"
	pid=${maps[0]#*perf-}
	rm -f "/tmp/perf-$pid"
	pid=${pid%.map}
}

timeout 60 "$waymark" record -e trail/auto/ -o jit -- ./made >out 2>words
got=$?
[ $got -eq 77 ] || {
	[ $got -eq 0 ] || fail "made: status $got: $(cat words)"
	made jit
	shown 0 trail --functions -n 0 jit
	has out ' 3 +18 +39  JS:~counting made.js:7;x +perf-[0-9]+.map( +-)?$'
	shown 0 trail --module 'perf-*' -n 0 jit
	has out 'JS:~counting made.js:7;x\+0x7 +jne +-> JS:~counting made.js:7;x\+0x5$'
	shown 0 trail --calls -n 0 jit
	line=$(grep -n LINE "$targets/made.c" | cut -d: -f1)
	has out "JS:~counting made.js:7;x \[perf-[0-9]+.map\] from .*made.c:$line "
	shown 0 export --format=folded jit
	has out 'main;JS:~counting made.js:7:x [0-9]+$'
}
if [ $got -eq 0 ] && "$waymark" doctor breakpoint-write >/dev/null 2>&1; then
	timeout 60 "$waymark" record -e watch:counted -o watched -- ./made >out 2>words || fail "watched: $(cat words)"
	made watched
	shown 0 dump watched
	[ "$(grep -c 'JS:~counting made.js:7;x' out)" -eq 3 ] || fail "dump: $(cat out)"
	shown 0 report watched
	has out 'JS:~counting made.js:7;x'
fi
# Of a recording that does not come about, no map is left, and no folder.
build_target record/alone.c
./alone &
idle=$!
await has_state "$idle" S
if (set -C && echo '1000 10 f' >"/tmp/perf-$idle.map") 2>/dev/null; then
	timeout 60 "$waymark" record -e func:called -e watch:nosuch -o none -p "$idle" >out 2>words
	expect "watch:nosuch" $? 1
	[ ! -e none ] || fail "watch:nosuch: left: $(ls -A none)"
	rm -f "/tmp/perf-$idle.map"
fi
kill "$idle"
if [ $got -eq 0 ] && command -v node >/dev/null; then
	echo 'function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2) }
	for (let i = 0; i < 30; i++) fibonacci(12)' >fibonacci.js
	timeout 100 "$waymark" record -e trail/soft/ -o node -- node --perf-basic-prof fibonacci.js >out 2>words || fail "node: $(cat words)"
	made node
	shown 0 trail --functions -n 0 --module 'perf-*' node
	has out 'fibonacci .*fibonacci.js:1:19 +perf-[0-9]+.map'
fi

pid=$(basename loaded/*-0-* | sed 's/-.*//' | head -1)
shown 0 report loaded
has out '^ +1 +[0-9]+$'
shown 0 report --json loaded
has out '"trail":\[\{"threads":1,"blocks":[0-9]+,"lost_places":0,.*"cut_threads":0,"damaged_threads":0\}\]'
for file in loaded/*-*-*; do
	case $file in
	*/"$pid-0-"*) ;;
	*) rm -f "$file" ;;
	esac
done
for what in trail report coverage; do
	shown 1 "$what" loaded
	has words "a thread's trail that it lists is not there"
done
shown 1 report loaded
has out '^THREADS .* DAMAGED THREADS$'
shown 2 diff loaded went
exit $failed
