#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches in libraries that are loaded later: from the first constructor to dlclose(3), and again.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs_engine

build_target watch/library.c -shared -fPIC -o library.so
build_target watch/library.c -shared -fPIC -DGO -o gone.so
build_target watch/loads.c

for times in 1 20; do
	watches named_$times 0 -e watch:in_library@library.so -- ./loads ./library.so $times
	says "watch:in_library@library.so: waits: no module that is called so is loaded yet"
	grep -q right out || fail "$times times: $(cat out)"
	expect "$times times: recorded" "$(json recorded)" $((times * 7))
	expect "$times times: missed, late" "$(json missed) $(found late-modules)" "0 0"
	expect "$times times: constructors" "$(field_values named_$times in_library new | grep -cx 100)" "$times"
	expect "$times times: another's" "$(field_values named_$times in_library new | grep -cx 5)" 0
done
# Beside one of the program's own, which continues all the time.
watches beside 0 -e watch:in_library@library.so -e watch:own -- ./loads ./library.so 10
expect "beside: the program's" "$(field_values beside own new | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 "
expect "beside: the library's" "$(field_values beside in_library new | wc -l)" 70

# Found in one that is there: it ends with that, and begins again with it.
start_ready ./loads ./library.so 5 - wait
(
	await_armed "$pid"
	echo >&7
) &
watches there 0 -e watch:in_library -p "$pid"
exec 7>&-
expect "there: recorded" "$(json recorded)" $((5 * 7 - 1))
grep -q right said || fail "there: $(cat said)"

# What does not come, or has no such variable.
watches nowhere 1 -e watch:in_library@nolibrary.so -- ./loads ./library.so 2
says "watch:in_library@nolibrary.so: was armed nowhere: the process has no module of this name"
watches without 1 -e watch:nothing@library.so -e watch:own -- ./loads ./library.so 2
says "watch:nothing@library.so: was armed nowhere: there is no such variable"
expect "without: the other's" "$(json recorded)" 2
bad 1 "one of a library to come: NAME@LIBRARY" -e watch:in_library -- ./loads ./library.so 1

# Five registers, and the library's would be the fifth: the four continue.
build_target watch/library.c -shared -fPIC -Din_library=more -o more.so
watches fifth 1 -e watch:own -e watch:in_library/8@library.so -e watch:more/8@more.so -e watch:more+8/16@more.so \
	-- ./loads ./library.so 3 ./more.so
says "with the watches before it, it would be the 5th register"
grep -q right out || fail "fifth: $(cat out)"
expect "fifth: unwatched" "$(json unwatched)" 1

# With code of Go in the process no watch can stay: before any of it has run, all are removed, with a report.
watches go 0 -e watch:in_library@library.so -e watch:own -- ./loads ./library.so 3 ./gone.so
says "taken away before the end: there is code of Go"
grep -q right out || fail "go: $(cat out)"
expect "go: recorded" "$(json recorded)" 5

# Two libraries, one after the other at one address: each hit has the name of its time.
build_target watch/twin.c -rdynamic
for twin in 1 2; do
	build_target watch/twin.c -shared -fPIC "-DTWIN=$twin" -o "twin$twin.so"
done
watches twins 0 -e watch:shared -- ./twin 3 ./twin{1,2,1,2}.so
grep -qx "at one address" out || fail "twins: $(cat out)"
"$waymark" dump twins >dumped || fail "dump: $?"
expect "twins: dump" "$(sed -n 's/^ *#0 \(twin_.\) .*/\1/p' dumped | uniq -c | tr -s '\n ' ' ')" \
	" 3 twin_1 3 twin_2 3 twin_1 3 twin_2 "
"$waymark" report twins >reported || fail "report: $?"
expect "twins: report" "$(awk '$3 ~ /^twin_/ { print $1, $3 }' reported | sort | tr '\n' ' ')" \
	"6 twin_1 6 twin_2 "

# By the engine it is watched as without it.
watches engine 0 -e trail/soft,last=1M/ -e watch:in_library@library.so -- ./loads ./library.so 3
grep -q right out || fail "engine: $(cat out)"
expect "engine: recorded, missed" "$(json recorded) $(json missed)" "21 0"

# A tool that is killed while they come and go.
for round in 1 2 3; do
	"$waymark" record -o killed$round -e watch:in_library@library.so -- ./loads ./library.so 3000 >killed_out 2>&1 &
	tool=$!
	# from where it has a child: killed before, there is none
	await has_child $tool loads || fail "killed: the program does not begin"
	sleep 0.$((round * 2)) # different moments
	kill -9 $tool
	wait $tool 2>/dev/null
	await grep -q right killed_out || fail "killed after 0.$((round * 2)) s: $(cat killed_out)"
done
exit $failed
