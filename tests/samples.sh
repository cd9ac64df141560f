#!/bin/bash
# SPDX-License-Identifier: MIT
# Samples of the kernel: which functions, lines, callers and threads they are in; of programs with
# and without an agent, of children, of programs that were executed, of code made at run time;
# beside what perf says of the same run; and exported.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cp "$WAYMARK_BUILD/tests/targets/burning" "$WAYMARK_BUILD/tests/targets/burning-static" \
	"$WAYMARK_BUILD/tests/targets/burning-frameless" . || skip "not built"
"$waymark" stat -e cpu-clock -o probe true || skip "the kernel counts nothing here: $(cat probe)"
EVENT=sample:cpu-clock/freq=1000,callchain/

# record ARGUMENT...: samples, into ./trace; what is printed is in ./out and ./err
record()
{
	rm -rf trace
	timeout -k 5 100 "$waymark" record -o trace -e "$EVENT" "$@" >out 2>err </dev/null ||
		fail "record $*: status $?: $(cat out err)"
}

# attached ARGUMENT...: the same of $pid, which waits until it is recorded
attached()
{
	rm -rf trace
	timeout -k 5 100 "$waymark" record -o trace -e "$EVENT" "$@" -p "$pid" \
		>out 2>err </dev/null 7>&- &
	recorder=$!
	await is_recording trace || fail "it does not record: $(cat err)"
	exec 7>&-
	wait $recorder || fail "record -p: $?: $(cat err)"
}

# report ARGUMENT...: of ./trace, into ./report
report()
{
	"$waymark" report --json -n 0 "$@" trace >report 2>err ||
		fail "report $*: status $?: $(cat err)"
}

# holds WHAT EXPRESSION: of tests/samples.py
holds()
{
	python3 "$source_dir/tests/samples.py" "$2" >held 2>&1 ||
		fail "$1: $(cat held) of $(head -c 300 report)"
}

# ---- one program ----

record ./burning 250
report --functions
holds "there are samples" 's["samples"] >= 50'
holds "they are of time" 's["unit"] == "ns" and s["event"] == "sample:cpu-clock"'
holds "all is in work" 'totals(work=100)'
holds "its callers have their shares" 'totals(heavy=75, light=25)'
holds "main called it" 'share("main", "total_percent") > 80'
holds "functions have modules" 'rows("work")[0]["module"].endswith("/burning")'
holds "functions have lines" 'rows("work")[0]["source"].endswith("burning.c")'
report --callers work
holds "callers of work" 'callers(heavy=75, light=25)'
report --lines
holds "lines" 'near(lines("burning.c", (27, 28, 29)), 100)'
report --threads
holds "its thread" 's["threads"][0]["thread"] == "burning"'
holds "has all" 'near(s["threads"][0]["self_percent"], 100)'
"$waymark" report trace >text || fail "report: $?"
grep -q '^Samples      sample:cpu-clock: ' text || fail "no samples in: $(cat text)"
grep -q '%  *[0-9]*  work  *burning  *burning.c:' text || fail "no work in: $(cat text)"
"$waymark" report --functions --event 'sample:other' trace >text 2>err && fail "samples of no event"
grep -q "no such thing: samples of that event" err || fail "words: $(cat err)"

# ---- exported ----

"$waymark" export --format=folded trace >folded || fail "folded: $?"
python3 - <<'END' || fail "folded: $(head -n 5 folded)"
stacks = {}
for line in open("folded"):
    stack, weight = line.rstrip("\n").rsplit(" ", 1)
    stacks[stack] = int(weight)
chains = {way: sum(w for s, w in stacks.items() if f"main;rounds_burn;{way};work" in s)
          for way in ("heavy", "light")}
assert all(s.startswith("burning;burning;") for s in stacks), list(stacks)[:3]
assert sum(chains.values()) > 0.9 * sum(stacks.values()), chains
assert 2 < chains["heavy"] / chains["light"] < 4.5, chains
END
"$waymark" export --format=folded --weight samples trace >counted || fail "folded by samples: $?"
report --functions
holds "as many samples as in the stacks" \
	"s['samples'] == $(awk '{ n += $NF } END { print n }' counted)"
"$waymark" export --format=speedscope -o scope.json trace || fail "speedscope: $?"
python3 - <<'END' || fail "speedscope: $(head -c 500 scope.json)"
import json
scope = json.load(open("scope.json"))
names = [frame["name"] for frame in scope["shared"]["frames"]]
profile = scope["profiles"][0]
assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds", profile["unit"]
assert len(profile["samples"]) == len(profile["weights"])
assert sum(profile["weights"]) == profile["endValue"]
stacks = [" ".join(names[frame] for frame in stack) for stack in profile["samples"]]
assert any("main rounds_burn heavy work" in stack for stack in stacks)
END
"$waymark" export --format=perf-script trace >out 2>err
expect "perf-script is for trails" $? 2

# ---- another machine: the kernel's names are in the trace ----

if [ -s trace/.kernel-symbols ]; then
	report --functions
	holds "the kernel's functions have names" \
		'all(not r["function"].startswith("0x") for r in s["functions"] if r["kernel"])'
	mv trace/.kernel-symbols names
	report --functions
	holds "and come from the trace alone" \
		'all(r["function"] == "[kernel]" for r in s["functions"] if r["kernel"])'
	mv names trace/.kernel-symbols
fi

# ---- programs without an agent ----

record ./burning-static 250
report --functions
holds "a static program" 'totals(work=100, heavy=75)'
record ./burning 100 child
report --threads
holds "a child" 'len({r["pid"] for r in s["threads"] if r["samples"] > 5}) == 2'
report --functions
# 100 steps of the child beside 400 of the parent
holds "its functions" 'totals(of_child=20, work=100)'
record ./burning 100 exec
report --functions
holds "a program that executes another" 'totals(work=100, heavy=75)'
record sh -c './burning 5 >/dev/null; ./burning-static 5 >/dev/null; exec ./burning 500'
report --threads
holds "programs by their names" \
	'max(s["threads"], key=lambda r: r["samples"])["program"] == "burning"'
report --functions
holds "whose addresses are theirs" 'of_user("work") > 80 and
	near(share("heavy", "total_percent") / share("work", "total_percent") * 100, 75)'
record ./burning 100 jit
report --functions
holds "code made at run time" 'share("made_loop") > 5'
rm -f "/tmp/perf-$(sed -n 's/^pid //p' out).map"

record ./burning 100 jitdump
report --functions
holds "code that a jitdump names" 'share("dumped_loop") > 5 and not rows("earlier")'

# ---- attached to ----

start_ready ./burning-static 250 wait
attached
report --functions
holds "a static program that runs already" 'totals(work=100, heavy=75)'

# ---- without frame pointers ----

EVENT=sample:cpu-clock/freq=1000,callchain=dwarf/ record ./burning-frameless 250
report --functions
holds "stacks by the unwind tables" 'totals(work=100, heavy=75)'
holds "and they are whole" 's["cut_stacks"] < s["samples"] / 10'
"$waymark" export --format=folded trace >folded || fail "folded: $?"
grep -q ';_start;.*main;rounds_burn;heavy;work ' folded || fail "folded: $(head -n 5 folded)"

# ---- beside perf, in the same run ----

if command -v perf >perf.is && perf record -o probe.data -e cpu-clock true >out 2>err; then
	rm -rf trace
	timeout -k 5 100 perf record -q -F 1000 -g -e cpu-clock -o perf.data -- \
		"$waymark" record -o trace -e "$EVENT" ./burning 250 >out 2>err </dev/null ||
		fail "under perf: $(cat out err)"
	report --functions
	perf script -i perf.data --comm burning -F comm,ip,sym >script 2>err ||
		fail "perf script: $(cat err)"
	python3 - <<'END' || fail "not as perf has it: $(head -c 800 report)"
import json
report = json.load(open("report"))
s = report["sample"][0]
chains = [part.split("\n")[1:] for part in open("script").read().strip().split("\n\n")]
heavy = 100 * sum(any(" heavy" in frame for frame in chain) for chain in chains) / len(chains)
ours = sum(r["total_percent"] for r in report["sample_function"] if r["function"] == "heavy")
noise = 5 * (2 * 75 * 25 / s["samples"]) ** 0.5 + 1
print(f"samples: {s['samples']}, perf {len(chains)}")
print(f"heavy: {ours:.1f} %, perf {heavy:.1f} %, noise {noise:.1f}")
assert abs(s["samples"] - len(chains)) < 0.1 * len(chains) + 20
assert abs(ours - heavy) < noise
END
else
	echo "perf is not here, or may not record"
fi

# ---- in a function whose instructions were moved to a trampoline ----

EVENT=sample:cpu-clock/freq=4000,callchain/ record -e addr:burning.c:28 ./burning 5
report --functions
holds "all samples are in the program or the agent" 'all_are_in_files()'
# the child has its parent's trampolines
EVENT=sample:cpu-clock/freq=4000,callchain/ record -e addr:burning.c:28 ./burning 4 child
report --functions
holds "those of a child as well" 'all_are_in_files() and share("of_child", "total_percent") > 2'
start_ready ./burning 4 wait
EVENT=sample:cpu-clock/freq=4000,callchain/ attached -e addr:burning.c:28
report --functions
holds "those of a program that runs already" 'all_are_in_files()'

# ---- under the engine, which runs a translation of the program ----

if [ -e "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" ]; then
	needs_engine
	record -e trail/soft/ ./burning 400
	report --functions
	holds "translations are of the program's instructions" 'share("work") > 50'
	holds "no address of the engine's is taken for the program's" 'engine_is_apart()'
	holds "its callers are the program's" \
		'near(100 * share("heavy", "total_percent") / share("rounds_burn", "total_percent"), 75)'
	"$waymark" export --format=folded --event cpu-clock trace >folded ||
		fail "folded of a trace with trails: $?"
	grep -q '^burning;burning;.*main;rounds_burn;heavy;work ' folded ||
		fail "folded: $(head -n 5 folded)"
	EVENT=sample:cpu-clock/callchain=dwarf/ record -e trail/soft/ ./burning-frameless 100
	report --callers work
	holds "callers by the unwind tables" 'callers(heavy=75, light=25)'
	EVENT=sample:cpu-clock record -e trail/soft/ ./burning-frameless 100
	report --callers work
	holds "callers by the trail: not all are known, and none is wrong" \
		'callers_are(heavy=75, light=25)'
	"$waymark" export --format=folded --event cpu-clock trace >folded ||
		fail "folded by the trail: $?"
	grep -q '^burning-frameless;burning-framele;.*main;rounds_burn;heavy;work ' folded ||
		fail "folded by the trail: $(head -n 5 folded)"
fi

# ---- two libraries, one after the other at one address ----

build_target watch/twin.c -rdynamic
for twin in 1 2; do
	build_target watch/twin.c -shared -fPIC "-DTWIN=$twin" -o "twin$twin.so"
done
for chain in callchain callchain=dwarf; do
	EVENT=sample:cpu-clock/freq=1000,$chain/ record -- ./twin 200000000 ./twin{1,2,1,2}.so
	grep -qx "at one address" out || fail "twins: $(cat out)"
	report --functions
	holds "twins, $chain: each by the name of its time" \
		'near(100 * share("twin_1") / (share("twin_1") + share("twin_2")), 50)'
	"$waymark" export --format=folded --event cpu-clock trace >folded || fail "folded twins: $?"
	[ "$chain" = callchain ] || ! grep -v 'main;twin_go;twin_[12]' folded | grep twin_ ||
		fail "twins, $chain: stacks: $(cat folded)"
	TWIN_AT=$PWD/twin.so EVENT=sample:cpu-clock/freq=1000,$chain/ record -- \
		./twin 200000000 ./twin{1,2,1}.so
	grep -qx "at one address" out || fail "twins of one path: $(cat out)"
	report --functions
	holds "twins of one path, $chain: one has the file's names" '50 < share("twin_1") < 85'
done

# ---- the whole machine ----

if [ "$(id -u)" -eq 0 ]; then
	record -a ./burning 100
	report --functions --pid "$(sed -n 's/^pid //p' out)"
	holds "all CPUs" 'totals(work=100, heavy=75)'
fi

exit $failed
