#!/bin/bash
# SPDX-License-Identifier: MIT
# Reports of a trail agree with other tools: objdump of lines, babeltrace2 of stretches, stacks and counts made by
# hand of exports, and all the same of a trace that was compressed.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_oracle
command -v python3 >/dev/null || skip "no python3"
command -v objdump >/dev/null || skip "no objdump"
origins=(auto)
if [ -e "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" ]; then
	cp "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" . || exit 1
	export WAYMARK_ENGINE=$folder/libwaymark-trail.so
	origins=(soft auto) # the last is what all else is done with
fi
truth=$source_dir/tests/trail_truth
cp "$truth"/{turns,same}.c "$source_dir/tests/lines/shapes.c" \
	"$source_dir"/tests/targets/trail/{start.S,shop.cc} .

# holds WHAT SCRIPT ARGUMENT...: what the script says of these
holds()
{
	local what=$1 script=$2
	shift 2
	timeout -k 5 100 python3 "$truth/$script" "$waymark" "$@" >out 2>&1 || fail "$what: $(cat out)"
	echo "$what: $(tail -1 out)"
}

static=(-g -static -nostdlib -no-pie -fno-pic -fno-stack-protector)
for program in turns-O0 turns-O2 shapes-O2; do
	cc "${static[@]}" "${program/*-/-}" "${program%-*}.c" start.S -o "$program" || exit 1
	for origin in "${origins[@]}"; do
		rm -rf "$program.trace"
		run 0 -e "trail/$origin/" -o "$program.trace" -- "./$program"
		holds "$program's lines by $origin" lines.py "$program" "$program.trace"
		[ "$program" != turns-O2 ] || holds "stacks by $origin" stacks.py turns-O2.trace turns-O2
	done
done

# Two functions of one name are two.
for number in 1 2; do
	cp same.c same$number.c || exit 1
	cc -O1 -g -fno-pic -fno-stack-protector -DNUMBER=$number -c same$number.c || exit 1
done
cc "${static[@]}" -O1 same1.o same2.o same.c start.S -o same || exit 1
line=$(grep -n LINE same.c | cut -d: -f1)
run 0 -e trail/auto/ -o same.trace -- ./same
expect "functions of one name" "$("$waymark" trail --functions -n 0 same.trace | grep -o ' same  *same .*' | tr -s ' ' | sort | tr '\n' ',')" \
	" same same same1.c:$line, same same same2.c:$line,"
expect "their lines" "$("$waymark" trail --functions --json -n 0 same.trace |
	grep -oE "\"source\":\"[^\"]*/same[12]\.c\",\"line\":${line}[,}]" | sort -u | wc -l)" 2

# Names are those of c++filt. GCC puts a part of add(int) elsewhere; the jump to it is no call.
if c++ -O2 -g -static -nostdlib -no-pie -fno-pic -fno-stack-protector -fno-exceptions shop.cc start.S -o shop; then
	run 0 -e trail/auto/ -o shop.trace -- ./shop
	for way in --functions "--branches -n 0"; do
		# shellcheck disable=SC2086
		"$waymark" trail $way --json shop.trace >out || fail "trail $way --json"
		sed -n 's/"[a-z_]*function":"/\n&/gp' out | sed -n 's/^"[a-z_]*function":"\([^"]*\)","[a-z_]*linkage":"\([^"]*\)".*/\1 = \2/p' | sort -u >names
		sed 's/.* = //' names | c++filt | paste -d '|' - names | sed 's/|.* = / = /' | sort -u >wanted
		expect "what c++filt calls ${way%% *}" "$(cat names)" "$(cat wanted)"
	done
	nm shop | grep -q cold && ! grep -qF 'shop::add(int volatile*, int) [clone .cold] = ' names && fail "the part's name: $(cat names)"
	expect "calls of each" "$("$waymark" trail --functions shop.trace | awk '/shop::add/ { print $3 }' | tr '\n' ' ')" "5 5 5 "
	expect "stacks" "$("$waymark" export --format=folded shop.trace | grep -o 'main;shop::add([^;]*) ' | sort -u | wc -l)" 3
	expect "frames" "$("$waymark" export --format=speedscope shop.trace | grep -o '"shop::add([^"]*)"' | sort -u | wc -l)" 3
	expect "names without parameters" "$("$waymark" export --no-parameters --format=folded shop.trace | grep -c 'main;shop::add [0-9]')" 3
	expect "rows without parameters" "$("$waymark" trail --no-parameters --functions shop.trace | grep -c ' shop::add  *shop ')" 3
fi

cc -g -static -nostdlib -no-pie -I"$source_dir" "$truth/workers.S" -o workers || exit 1
# Branches, counted by hand: 700 turns; each 64th, ten in all, makes a system call; in three threads, or in one.
branches_of()
{
	local line=$1
	shift
	"$waymark" coverage --all "$@" workers.trace | sed -n "s/^BRDA:$line,0,[01],//p" | tr '\n' ' '
}
turns=$(grep -n 'jnz	again' "$truth/workers.S" | cut -d: -f1)
calls=$(grep -n 'jnz	1f' "$truth/workers.S" | cut -d: -f1)
for origin in "${origins[@]}"; do
	rm -rf workers.trace
	run 0 -e "trail/$origin/" -o workers.trace -- ./workers
	expect "turns of all" "$(branches_of "$turns")" "2097 3 "
	expect "calls of all" "$(branches_of "$calls")" "2070 30 "
	workers=$("$waymark" trail --json -n 1 workers.trace | sed -n 's/^{"type":"trail_thread".*"pid":\([0-9]*\),"tid":\([0-9]*\).*/\1 \2/p')
	expect "threads" "$(wc -l <<<"$workers")" 4
	while read -r pid tid; do
		if [ "$pid" = "$tid" ]; then
			expect "turns of the first" "$(branches_of "$turns" --tid "$tid")" "- - "
		else
			expect "turns of one" "$(branches_of "$turns" --tid "$tid")" "699 1 "
			expect "calls of one" "$(branches_of "$calls" --tid "$tid")" "690 10 "
		fi
	done <<<"$workers"
done
if command -v babeltrace2 >/dev/null; then
	holds "stretches of threads" stretches.py workers.trace $RANDOM
	holds "stretches of one thread" stretches.py turns-O2.trace $RANDOM
	babeltrace2 workers.trace >/dev/null 2>words || fail "babeltrace2 does not read it: $(cat words)"
	[ ! -s words ] || fail "babeltrace2 warns: $(cat words)"
else
	echo "without babeltrace2 stretches are not held against it"
fi

# Packed and unpacked again nothing has changed; packed, it is refused by others, and read by us as before.
listing()
{
	timeout 60 "$waymark" trail --json --instructions -n 0 workers.trace >"$1.trail" || fail "$1: trail"
	timeout 60 "$waymark" dump workers.trace >"$1.dump" || fail "$1: dump"
	timeout 60 "$waymark" coverage --all turns-O2.trace >"$1.info" || fail "$1: coverage"
	timeout 60 "$waymark" export --format=folded -o - turns-O2.trace >"$1.folded" || fail "$1: export -o -"
}
cp -r workers.trace before
listing plain
for trace in workers.trace turns-O2.trace; do
	timeout 60 "$waymark" compress "$trace" >/dev/null || fail "compress $trace"
done
listing packed
for way in trail dump info folded; do
	cmp -s "plain.$way" "packed.$way" || fail "$way is another of a compressed trace"
done
if command -v babeltrace2 >/dev/null && babeltrace2 workers.trace >/dev/null 2>&1; then
	fail "babeltrace2 reads something out of a compressed trace"
fi
timeout 60 "$waymark" compress -d workers.trace >/dev/null || fail "compress -d"
diff -r before workers.trace || fail "what was unpacked is not what was packed"
exit "$failed"
