#!/bin/bash
# SPDX-License-Identifier: MIT
# Callers of hits: those that libc finds, on stacks of all kinds; why a callchain ends; frames in `dump`.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"
command -v python3 >/dev/null || skip "no python3"

cat >compare.py <<'END'
import json, sys

trace, printed, place, wanted = *sys.argv[1:4], int(sys.argv[4])
is_leaf, has_stubs = place.startswith("leaf"), len(sys.argv) > 5
known = {}
for line in open(printed):
    number, *callers = line.split()
    known[int(number)] = [int(caller, 16) for caller in callers]
# why it ends, where that is not the thread's outermost function, and how many callers there are
ENDS = {9: ("astray", 2), 10: ("unreadable", 1), 11: ("astray", 1)}
seen = set()
for line in open(trace):
    event = json.loads(line)
    fields = event["fields"]
    number = fields.get("arg1", fields.get("value", fields.get("ret")))
    callers = [int(address, 16) for address in fields["callchain"]][1:]
    end = [state for state in ("cut", "unreadable", "no_rule", "astray") if state in event]
    functions = [frame["function"] for frame in event["frame"]]
    modules = [frame["module"] for frame in event["frame"]]
    seen.add(number)
    if number in ENDS:
        assert (end, len(callers)) == ([ENDS[number][0]], ENDS[number][1]), event
    elif has_stubs:
        # libc has the agent's stubs besides
        rest = iter(known[number])
        assert all(caller in rest for caller in callers[1:]), event
    else:
        # the caller of leaf() is at another call; glibc's __start_context() has no row
        full = [callers[0]] + known[number] if is_leaf else known[number]
        assert callers == full[:wanted], (event, [hex(a) for a in full])
        is_cut = len(full) > wanted or number == 2
        assert end == ["cut"] * is_cut or (number == 5 and end in (["no_rule"], ["cut"])), event
    assert number in (9, 11) or None not in modules, event
    assert not any("waymark" in (module or "") for module in modules), event
    if number == 1:
        assert functions[:3 + is_leaf] == ["leaf"] * is_leaf + ["middle", "outer", "main"], event
    if number == 2:
        assert wanted < 64 or functions.count("deep") >= 64, callers
    if number == 3:
        assert any(frame["signal"] for frame in event["frame"]), event
    if number == 9:
        assert callers[-1] == 0x1234, event
print(*sorted(seen))
END
called="1 2 3 4 5 6 7 8"

# built OPTION...: ./callers
built()
{
	cc "$@" -g -w -I"$source_dir/include" "$probes_dir/callers.c" -o callers -lpthread || exit 1
}

# compared WHAT EVENT WANTED NUMBERS SPEC...: all events of a recording have the callers that libc finds
compared()
{
	local what=$1 event=$2 wanted=$3 numbers=$4
	rm -rf trace
	run 0 --json -o trace "${@:5}" -- ./callers
	grep -E '^[0-9]+ ' out >printed
	expect "$what: discarded" "$(json discarded)" 0
	"$waymark" dump --json --event "callers:$event" trace >events.json
	# shellcheck disable=SC2086 # nothing, or a word
	expect "$what" "$(python3 compare.py events.json printed "$event" "$wanted" ${has_stubs-})" "$numbers"
}

built -O2
compared "the most" leaf 64 "$called 9 10 11 12" -e func:leaf@callers/bt=64,arg1/
compared "three" leaf 3 "$called 9 10 11 12" -e func:leaf@callers/bt=3,arg1/
"$waymark" dump trace >text
grep -q '^    #2 outer (callers.c:' text || fail "dump: $(head -n 6 text)"
grep -q 'callchain = \[0x[0-9a-f]* 0x[0-9a-f]* 0x1234\] (astray)' text || fail "dump: $(grep 0x1234 text)"
compared "marker" here 64 "$called 12" -e marker:callers:here/bt=64/
# The same callers as stacks, each with how many of the events have it.
"$waymark" export --format=folded --event callers:here trace >folded || fail "export: $?"
expect "folded stacks: events" "$(awk '{ sum += $NF } END { print sum }' folded)" "$(wc -l <events.json)"
grep -qE '^callers;callers;(.*;)?main;outer;middle [0-9]+$' folded || fail "folded stacks: $(cat folded)"
"$waymark" report --json --functions --event callers:here trace >sums || fail "report --functions: $?"
expect "report: events in middle" "$(python3 -c 'import json
print(*(x["samples"] for x in json.load(open("sums"))["sample_function"] if x["function"] == "middle"))')" \
	"$(python3 -c 'import json
print(sum(json.loads(x)["frame"][0]["function"] == "middle" for x in open("events.json")))')"
"$waymark" report --functions trace >text 2>words
expect "report: events that are not asked for" "$? $(grep -c 'no such thing: samples' words)" "1 1"
compared "returns" leaf:end 64 "$called 9 10 11 12" -e func:leaf@callers/ret,bt=64/
compared "a call's one event" leaf 64 "6 7 8 9 10 11 12" -e 'func:leaf@callers/arg1,bt=64,if=ret>5/'
has_stubs=stubs compared "live stubs" leaf:begin 64 "$called 9 10 11 12" \
	-e func:leaf@callers/bt=64,arg1,ret/ -e 'func:middle@callers/ret/' -e 'func:outer@callers/ret/' -e 'func:deep@callers/ret/'
if [ -e "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" ]; then
	needs_engine
	compared "under the engine" leaf 64 "$called 9 10 11 12" -e trail/soft/ -e func:leaf@callers/bt=64,arg1/
fi
built -O0
compared "frame pointers" leaf 64 "$called 9 11 12" -e func:leaf@callers/bt=64,arg1/
exit $failed
