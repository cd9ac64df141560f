#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in libraries that come late, and programs that wait for a tool: for its word, or for room.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# A library that is loaded late, again and again: from when its probes are armed. Its constructor is
# before that, if nothing holds it up. The trace has the time between, and the summary the longest.
run 0 --json -e 'func:library_add/arg1:i32,arg2:i32,ret:i32/' -o late -- ./loads ./libprobed.so 5 10 armed
expect "dlopen: calls" "$(values late libprobed:library_add:begin arg1 | grep -vc '^-1$')" 50
expect "dlopen: returns" "$(values late libprobed:library_add:end ret | grep -vc '^-3$')" 50
expect "dlopen: late" "$(found late-modules)" 5
"$waymark" report --json late >reported || fail "report: $?"
python3 - reported words >gaps 2>&1 <<'GAPS' || fail "dlopen: $(cat gaps)"
import json, re, sys
gaps = json.load(open(sys.argv[1]))["gap"]
assert len(gaps) == 5, gaps
for gap in gaps:
	assert gap["name"].endswith("libprobed.so") and gap["cause"] == "loaded late", gap
	assert 0 < gap["length_ns"] == gap["end_ns"] - gap["begin_ns"], gap
# each ends when the tool hears of it, which may be after the next library came
assert len({gap["begin_ns"] for gap in gaps}) == 5, gaps
GAPS

# A running program that has no such library yet: the recording waits for it, by a glob or by its
# name.
for spec in 'func:library_a*' func:library_add@libprobed.so 'func:library_a*@libprobed*'; do
	start_ready python3 -c 'import ctypes, sys, time
print("ready", flush=True)
sys.stdin.readline()
library = ctypes.CDLL("./libprobed.so")
while True:
    library.library_add(1, 1)
    time.sleep(0.001)'
	begin_record --json -e "$spec" -e 'func:kill' -o awaited -p "$pid"
	await grep -q "waiting for a module that has it" words || fail "$spec: $(cat words)"
	await has_agent "$pid" || fail "$spec: no agent"
	echo go >&7
	await_event awaited library_add 5
	end_record 0 TERM
	kill "$pid"
	exec 7>&-
	rm -rf awaited
done

# Two plugins at one address that begin alike, and one that is written over in place, also without a
# build id: each build's calls are recorded, under its own name.
build_plugin()
{
	cc -O2 -g -fPIC -shared -fno-semantic-interposition "$probes_dir/plugin.c" -o "$@" || exit 1
}
cc -O2 "$probes_dir/plugins.c" -o plugins -ldl && build_plugin libone.so -DBUILD=1 && build_plugin libtwo.so -DBUILD=2 || exit 1
run 0 --json -e 'func:plugin_add/arg1/' -o alike -- ./plugins 20 ./libone.so ./libtwo.so
expect "alike: refused" "$(json refused)" 0
expect "alike: late" "$(found late-modules)" 40
expect "alike: one, two" "$(count alike libone:plugin_add) $(count alike libtwo:plugin_add)" "2000 2000"
for id in sha1 none; do
	build_plugin libtwo.so -DBUILD=2 -DFILLER "-Wl,--build-id=$id" && build_plugin libone.so -DBUILD=1 "-Wl,--build-id=$id"
	rm -rf over
	run 0 --json -e 'func:plugin_add/arg1/' -o over -- ./plugins 2 ./libplug.so={./libone.so,./libtwo.so}
	expect "written over, build id $id: refused" "$(json refused)" 0
	expect "written over, build id $id: calls" "$(count over libplug:plugin_add)" 400
done

# A stopped tool misses all of the 30 libraries that are gone when it continues, and counts each.
run 0 --json -e 'func:library_add' -o stopped -- ./loads ./libprobed.so 30 1 stop
expect "stopped: late" "$(found late-modules)" 31

# A stopped tool holds back the first of 20 children, a second each if they all waited. Each writes to its parent's
# buffer meanwhile, unless the parent has privileges: those of root's have none until the tool
# answers.
written="20 0" late=0
[ "$(id -u)" -ne 0 ] || written="0 0" late=20
run 0 --json -e 'func:serve@forks' -o waiting -- ./forks 20 seconds
expect "stopped: what they did" "$(json recorded) $(json discarded)" "$written"
expect "stopped: late" "$(found late-processes)" "$late"
[ "$(cat seconds)" -lt 15 ] || fail "stopped: 20 children were held back for $(cat seconds) s"

# Who waits for room makes no system call that the program has shut itself off from.
run 0 --json --policy block --buffer 1M -e 'func:serve/arg1/' -o shut_in -- ./shut 3000000
expect "shut in: recorded + discarded" $(($(json recorded) + $(json discarded))) 3000000
# Also one that might have slept until then.
for _ in 1 2 3; do
	rm -rf shut_late
	run 0 --json --policy block --buffer 256K -e 'func:serve/arg1/' -o shut_late -- \
		sh -c './shut 1000000 1300 >calls'
	expect "shut in late: recorded + discarded" $(($(json recorded) + $(json discarded))) "$(cat calls)"
done

exit "$failed"
