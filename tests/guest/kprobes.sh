#!/bin/bash
# SPDX-License-Identifier: MIT
# Conditions of kprobes: what is recorded with one is what the same recording has without it, to the event. The kernel tests
# some fields, Waymark the registers. In the guest, since the kernels of some machines have no kprobes.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/../record_setup.bash"

[ "$(id -u)" -eq 0 ] || skip "it needs root"
[ -e /sys/bus/event_source/devices/kprobe ] || skip "the kernel has no kprobes"
cat >work.sh <<-'WORK'
	for i in 1 2 3 4 5 6 7 8 9; do (exit $((i % 3))); done
	sleep 0.01; sleep 0.01 # programs of that name, whose end is the event
	head -c 3 /dev/zero >/dev/null
	cat /dev/null /dev/null
WORK

# same SYMBOL OPTIONS CONDITION EXPRESSION: one recording has all hits, and with callers those that meet the condition
same()
{
	rm -rf both
	"$waymark" record -a -o both -e "kprobe:$1/$2/" -e "kprobe:$1/$2,callchain,$3/" sh work.sh >said 2>words </dev/null ||
		fail "$1, $3: $(cat words)"
	"$waymark" dump --json both | python3 -c 'import json, sys
some, whole = [], []
for line in sys.stdin:
	event = json.loads(line)
	if event.get("name") != "kprobe:" + sys.argv[2]:
		continue
	x = {key: int(str(value), 0) for key, value in event["fields"].items() if key != "callchain"}
	x["tid"] = event["tid"]
	x.pop("ip", None)
	(some if "callchain" in event["fields"] else whole).append(x)
wanted = [str(x) for x in whole if eval(sys.argv[1])]
got = [str(x) for x in some]
print(len(wanted) and sorted(wanted) == sorted(got) and "same" or f"{len(got)} of {len(whole)}, not {len(wanted)}")' "$4" "$1" >got
	expect "$1, $3" "$(cat got)" same
}

same do_exit args 'if=arg1==0x100' 'x["arg1"] == 0x100'
same do_exit args 'if=arg1&0x300,if=arg1>=0x200' 'x["arg1"] & 0x300 and x["arg1"] >= 0x200'
same ksys_read args 'if=arg3==3' 'x["arg3"] == 3'
same ksys_read ret 'if=ret>=0,if=ret<=3' '0 <= x["ret"] <= 3'

# the kernel's own: the thread's name
"$waymark" record -a -o named -e 'kprobe:do_exit/args,if=comm=="sleep"/' sh work.sh >said 2>words </dev/null || fail "$(cat words)"
expect "by the thread's name" "$("$waymark" dump --json named | grep -c '"kprobe:do_exit"')" 2
"$waymark" record -a -o none -e 'kprobe:do_exit/args,if=comm=="nothing"/' sh work.sh >said 2>words </dev/null || fail "$(cat words)"
expect "no thread has that name" "$("$waymark" dump --json none | grep -c '"kprobe:do_exit"')" 0
exit $failed
