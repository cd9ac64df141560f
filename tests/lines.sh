#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark trail --lines and waymark coverage: lines ran as often as gcov says, lcov reads what is written, and what
# is unknown is said.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs_engine

shapes=$source_dir/tests/lines/shapes.c
cp "${shapes%/*}"/*.c .
needs_engine
bare="-ffreestanding -nostdlib -static -fno-stack-protector -fno-pie -no-pie"

# said STATUS TEXT ARGUMENT...: waymark with these, ending so, and TEXT in its words; what it prints is in ./out
said()
{
	local wanted=$1 text=$2 got
	shift 2
	timeout -k 5 60 "$waymark" "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "$*: status $got, expected $wanted: $(cat words)"
	[ -z "$text" ] || says "$text"
}

# build NAME FLAG...: the program without a library
build()
{
	local name=$1
	shift
	# shellcheck disable=SC2086 # several words
	cc "$@" $bare shapes.c start.c -o "$name" || exit 1
}

build program -O0 -g
run 0 -e trail/soft/ -o plain -- ./program

# ---- beside gcov ----

# numbers FILE.gcov: line and count, of each line that has code
numbers()
{
	awk -F: '{ gsub(/[ *]/, "", $1); gsub(/ /, "", $2)
		if ($2 > 0 && $1 ~ /^[0-9#=]/) print $2, $1 ~ /^[#=]/ ? 0 : $1 }' "$1"
}

# jumps_by_line: line, then all counts of its branches from the least on, of those that ran; from line and count pairs
jumps_by_line()
{
	sort -k1,1n -k2,2n | awk '$1 != line { if (NR > 1) print text; line = text = $1 } { text = text " " $2 }
		END { print text }'
}

if command -v gcov >/dev/null && cc -O0 -g --coverage shapes.c -o counted && ./counted; then
	gcov -b -c counted-shapes.gcda >/dev/null 2>&1 || gcov -b -c shapes.gcda >/dev/null
	numbers shapes.c.gcov | sort >theirs
	said 0 "" trail --lines --json --source shapes.c plain
	sed -n 's/.*"line":\([0-9]*\),"ran":\([0-9]*\).*/\1 \2/p' out | sort >ours
	join theirs ours | awk '$2 != $3 { print "line " $1 ": gcov " $2 ", ours " $3 }' >differ
	[ ! -s differ ] || fail "lines ran otherwise: $(cat differ)"
	[ "$(join theirs ours | wc -l)" -gt 80 ] || fail "few lines are reported by both: $(join theirs ours | wc -l)"
	# One of them puts a function's entry on its name and has lines for labels, the other on its brace.
	join -v1 theirs ours | while read -r line _; do
		sed -n "${line}p" shapes.c
	done | grep -vE '^[a-z].*\)$|^	case |^	default:|^[a-z]+:$' && fail "these lines are missing"
	join -v2 theirs ours | while read -r line _; do
		sed -n "${line}p" shapes.c
	done | grep -vE '^[{}]$' && fail "gcov has not these lines"
	# Branches, on lines where the machine has as many as the source.
	awk '/^ *[0-9#=-]+\*?: *[0-9]+:/ { split($0, part, ":"); line = part[2] + 0 }
		/^branch .* (taken|never)/ { print line, $3 == "never" ? 0 : $4 }' shapes.c.gcov | jumps_by_line | sort >theirs
	sed -n 's/.*"line":\([0-9]*\),"taken":\([0-9]*\),"not_taken":\([0-9]*\)}/\1 \2\n\1 \3/p' out | jumps_by_line | sort >ours
	join theirs ours >/dev/null
	awk 'NR == FNR { theirs[$1] = $0; next } ($1 in theirs) && split(theirs[$1], part, " ") == NF {
		both++; if (theirs[$1] != $0) print "gcov " theirs[$1] ", ours " $0 } END { print both + 0 >"both" }' \
		theirs ours >differ
	[ ! -s differ ] || fail "branches went otherwise: $(cat differ)"
	[ "$(cat both)" -gt 15 ] || fail "few lines have branches in both: $(cat both)"
else
	echo "without gcov lines are not held against it"
fi

# ---- the tracefile ----

# valid FILE: its contents agree with its own sums
valid()
{
	awk -F'[:,]' 'function is(what, got) { if (got != $2) print "line " NR ": " what " are " got ", not " $2 }
		/^TN:/ { lf = lh = brf = brh = fnf = fnh = 0; open = 1 }
		/^SF:\// { next }
		/^FN:[0-9]+,/ { fnf++; next }
		/^FNDA:[0-9]+,/ { fnh += $2 > 0; next }
		/^BRDA:[0-9]+,[0-9]+,[01],([0-9]+|-)$/ { brf++; brh += $5 != "-" && $5 > 0; next }
		/^DA:[0-9]+,[0-9]+$/ { if ($2 <= last && lf) print "line " NR ": not in order"; last = $2; lf++; lh += $3 > 0; next }
		/^FNF:/ { is("functions", fnf); next } /^FNH:/ { is("functions that ran", fnh); next }
		/^BRF:/ { is("branches", brf); next } /^BRH:/ { is("branches that ran", brh); next }
		/^LF:/ { is("lines", lf); next } /^LH:/ { is("lines that ran", lh); next }
		/^end_of_record$/ { open = 0; records++; next }
		!/^TN:/ { print "line " NR ": " $0 }
		END { if (open || !records) print "the last record has no end" }' "$1"
}

said 0 "" coverage -o all.info plain
expect "the tracefile's mistakes" "$(valid all.info)" ""
expect "sources" "$(grep -c ^SF: all.info)" 2
grep -q '^BRDA:15,0,1,-$' all.info || fail "a jump that never came about is not marked so"
grep -q '^FNDA:0,never$' all.info || fail "a function that never ran is not there"
grep -q '^FNDA:16,square$' all.info || fail "square() did not run 16 times"
said 0 "" coverage plain
cmp -s out all.info || fail "stdout has another tracefile than -o"
said 0 "" trail --lines --json --source shapes.c plain
expect "lines in both" "$(sed -n 's/.*"line":\([0-9]*\),"ran":\([0-9]*\).*/DA:\1,\2/p' out | sort)" \
	"$(sed -n '/shapes.c$/,/^end_of/p' all.info | grep ^DA: | sort)"
if command -v lcov >/dev/null; then
	lcov --rc lcov_branch_coverage=1 --summary all.info >summary 2>&1 || fail "lcov: $(cat summary)"
	sum=$(awk -F: '/^LF:/ { f += $2 } /^LH:/ { h += $2 } END { print h " of " f " lines" }' all.info)
	grep -q "$sum" summary || fail "lcov sums otherwise than $sum: $(cat summary)"
	genhtml --branch-coverage -q -o html all.info >words 2>&1 || fail "genhtml: $(cat words)"
else
	echo "without lcov the tracefile is only held against its own sums"
fi

# The same twice is twice as often; the branches keep their numbers.
run 0 -e trail/soft/ -o again -- ./program
said 0 "" coverage -o twice.info plain again
expect "the merged tracefile's mistakes" "$(valid twice.info)" ""
expect "lines of two traces" "$(grep ^DA: twice.info)" \
	"$(awk -F'[:,]' '/^DA:/ { print "DA:" $2 "," 2 * $3 }' all.info)"
expect "branches of two traces" "$(grep ^BRDA: twice.info)" \
	"$(awk -F'[:,]' '/^BRDA:/ { print "BRDA:" $2 "," $3 "," $4 "," ($5 == "-" ? "-" : 2 * $5) }' all.info)"

# Two stretches are the whole.
instructions()
{
	said 0 "" trail --lines --json "$@" plain
	sed 's/.*"instructions":\([0-9]*\).*/\1/' out | awk '{ sum += $1 } END { print sum }'
}
expect "instructions of two stretches" \
	"$(($(instructions --to block:500) + $(instructions --from block:500)))" "$(instructions)"

# ---- choosing ----

said 0 "" coverage --include 'shapes.*' plain
expect "--include" "$(grep ^SF: out)" "SF:$folder/shapes.c"
said 0 "" coverage --exclude '*/shapes.c' plain
expect "--exclude" "$(grep ^SF: out)" "SF:$folder/start.c"
said 0 "" coverage --module program plain
expect "--module" "$(grep -c ^SF: out)" 2
said 1 "the trace has no such thing: code of a source that was asked for" coverage --module 'libnone*' plain
said 1 "the trace has no such thing: code of a source that was asked for" coverage --include 'none.c' plain
said 0 "" coverage --summary -o summed.info plain
cmp -s summed.info all.info || fail "--summary -o has another tracefile"
grep -q ' 11  *10  *90.9%.*/shapes.c' out || fail "--summary: $(cat out)"
said 0 "" coverage --json plain
if command -v python3 >/dev/null; then
	expect "--json" "$(python3 -c 'import json; a = json.load(open("out"))["all"][0]; print(a["functions_hit"], a["functions"], round(a["functions_percent"], 2))')" \
		"11 12 91.67"
fi
said 0 "" trail --lines --function square plain
grep -q 'return x \* x' out || fail "--function lacks the function: $(cat out)"
grep -q 'fib' out && fail "--function has another function's lines"
said 1 "the trace has no such thing: code of a source that was asked for" trail --lines --function nothing plain
said 1 "the trace has no such thing: code of a source that was asked for" trail --lines --source 'none.c' plain

# Optimization hides lines: each such source is marked.
said 0 "" coverage --summary plain
grep -q ' yes$\|optimi' out words && fail "at -O0 optimized: $(cat out words)"
build tuned -O2 -g
run 0 -e trail/soft/ -o tuned_trace -- ./tuned
said 0 "compiled with optimization, so lines that ran may count as never run: $folder/start.c" \
	coverage -o tuned.info tuned_trace
expect "the mistakes of optimized code's tracefile" "$(valid tuned.info)" ""
said 0 "compiled with optimization" coverage --summary tuned_trace
grep -q '/shapes.c  *yes$' out || fail "--summary does not mark optimized code: $(cat out)"
said 0 "" coverage --json tuned_trace
expect "sources that --json marks" "$(grep -o '"optimized":true' out | wc -l)" 2
said 0 "" coverage --json plain
expect "sources that --json does not mark" "$(grep -o '"/[^}]*"optimized":false' out | wc -l)" 2

# The compiler's own headers count only if someone asks for them.
# shellcheck disable=SC2086 # several words
cc -O0 -g $bare swap.c start.c -o swap || exit 1
run 0 -e trail/soft/ -o swap_trace -- ./swap
said 0 "" coverage swap_trace
expect "headers of the compiler" "$(grep -c '^SF:.*/ia32intrin.h' out)" 0
expect "sources" "$(grep -c ^SF: out)" 2
said 0 "" coverage --include '*intrin.h' swap_trace
expect "headers that were asked for" "$(grep -c '^SF:.*/ia32intrin.h' out)" 1
said 0 "" coverage --all swap_trace
expect "headers with --all" "$(grep -c '^SF:.*/ia32intrin.h' out)" 1

# What never ran has its mark, and what has no code nothing.
said 0 "" trail --lines plain
grep -q '##### .*return 1;$' out || fail "a line that never ran has no mark: $(cat out)"
grep -q '^ *[0-9]*  static volatile int sink;$' out || fail "a line without code has a count"

# ---- what can't be reported ----

build naked -O0
run 0 -e trail/soft/ -o naked_trace -- ./naked
said 1 "no debug information describes it: the lines of $folder/naked" trail --lines naked_trace
said 1 "no debug information describes it: the lines of $folder/naked" coverage naked_trace
said 0 "" coverage -o some.info naked_trace plain
cmp -s some.info all.info || fail "a trace without lines changes another's"

touch -d '+1 hour' shapes.c
said 0 "shapes.c was changed after the program was built" trail --lines --source shapes.c plain
said 0 "shapes.c was changed after the program was built" coverage -o edited.info plain
expect "lines that it says" "$(wc -l <words)" 1
cmp -s edited.info all.info || fail "coverage of a source that was changed is another"
mkdir elsewhere && mv shapes.c elsewhere
said 0 "not found: $folder/shapes.c" trail --lines plain
! grep -qF '\x0a' words || fail "a line end is shown as what a terminal must not see: $(cat words)"
grep -qE '^ *16 .* 22$' out || fail "a source that is not here has no counts: $(cat out)"
said 0 "" trail --lines --source-dir elsewhere --source shapes.c plain
grep -q 'return x \* x' out || fail "--source-dir was not searched"
said 0 "" coverage --source-dir elsewhere --include shapes.c plain
expect "--source-dir" "$(grep ^SF: out)" "SF:$folder/elsewhere/shapes.c"
said 0 "" coverage plain
expect "sources that are here" "$(grep ^SF: out)" "SF:$folder/start.c"
said 0 "" coverage --all plain
expect "--all" "$(grep -c ^SF: out)" 2
mv elsewhere/shapes.c .

mv program program_away
said 1 "program" coverage plain
said 1 "" trail --lines plain
mkdir -p "root$folder" && cp program_away "root$folder/program"
said 0 "" coverage --root "root" plain
cmp -s out all.info || fail "--root has another tracefile"
mv program_away program

said 1 "No such file or directory: nothing" coverage nothing
said 1 "No such file or directory: nothing" coverage nothing plain
grep -q '^LF:' out || fail "one folder that is no trace keeps the other from being reported"
said 1 "this is no trace" coverage elsewhere
said 2 "name a trace's folder" coverage
said 2 "--include needs a value" coverage --include
said 2 "--from takes a time" coverage --from never plain
said 1 "No such file or directory" coverage -o nothing/x.info plain
if [ -w /dev/full ]; then
	said 1 "No space left on device" coverage -o /dev/full plain
	timeout 60 "$waymark" coverage plain >/dev/full 2>words && fail "a full disk is not noticed"
	timeout 60 "$waymark" trail --lines plain >/dev/full 2>words && fail "trail --lines: a full disk is not noticed"
fi
(
	ulimit -f 1
	trap '' XFSZ
	said 1 "File too large" coverage -o large.info plain again
	[ ! -e large.info ] || fail "a tracefile that was cut is left behind"
	exit "$failed"
) || failed=1

# Functions are where the source declares them, also where their first instructions are inlined from
# a header.
cp "${shapes%/*}"/declared.* .
for file in declared.cc declared.hpp; do
	awk -v file=$file '/FN [_a-z]/ { for (i = 1; $i != "FN"; i++); while ($++i != "*/") print file, NR, $i }' $file
done | sort >declared
for how in "c++ -O0" "c++ -O2" "c++ -O3 -flto" "c++ -O2 -gsplit-dwarf" "c++ -O2 -gsplit-dwarf -gdwarf-4" "clang++ -O2" \
	"clang++ -O2 -gsplit-dwarf"; do
	if ! command -v "${how%% *}" >/dev/null || ! $how -g declared.cc -o declares; then
		echo "not tried: $how"
		continue
	fi
	rm -rf declaring
	run 0 -e trail/soft/ -o declaring -- ./declares
	said 0 "" coverage --module declares declaring
	awk -F '[:,]' '/^SF:/ { sub(".*/", "", $2); file = $2 } /^FN:/ { sub("_ZZ5apply.*", "lambda", $3); print file, $2, $3 }' \
		out | grep -v _ZL7tripled | sort >found
	cmp -s declared found || fail "$how: functions differ: $(diff declared found)"
done

# A damaged trace is reported up to the damage.
cp -r plain torn
stream=$(find torn -name '*-*-*' ! -name '*-0-*' | head -1)
size=$(stat -c %s "$stream")
# 64 words that are no block's number: a single one may be a time, and every time is possible
for _ in {1..64}; do printf '\377\377\377\177'; done | dd of="$stream" bs=4 seek=$((size / 6)) conv=notrunc 2>/dev/null
said 1 "the trace is damaged" coverage -o torn.info torn
expect "the damaged trace's tracefile's mistakes" "$(valid torn.info)" ""
lf=$(sed -n 's/^LH://p' torn.info | head -1)
[ "${lf:-0}" -gt 20 ] && [ "$lf" -lt 97 ] || fail "the damaged trace has $lf lines"
said 1 "the trace is damaged" trail --lines torn

exit "$failed"
