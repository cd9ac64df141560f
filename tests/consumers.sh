#!/bin/bash
# SPDX-License-Identifier: MIT
# What a hostile process writes, in the command's readers, for WAYMARK_FUZZ_SECONDS: `make fuzz`
# builds them under sanitizers. Half of the time is of an agent that deviates from the protocol,
# half of damaged traces.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

seconds=${WAYMARK_FUZZ_SECONDS:-3} seed=${WAYMARK_FUZZ_SEED:-$RANDOM}
command -v cc >/dev/null || skip "no C compiler"
for program in watched burning ../../examples/spans ../../examples/crash; do
	build_target $program.c
done

# record NAME ARGUMENT...: a good trace; one that can't be made here is left out
record()
{
	timeout -k 5 60 "$WAYMARK_BUILD/cli/waymark" record -o "$1.trace" "${@:2}" >"$1.words" 2>&1 </dev/null
	[ -s "$1.trace/metadata" ] && traces+=("$1.trace")
}

traces=()
record spans -e 'marker:*:*' -e switch -e count:task-clock -- ./spans
record watch -e watch:order -e watch:small/bt/ -- ./watched types
record jit -e sample:cpu-clock/callchain/ -e switch -- ./burning 30 jit
record jitdump -e sample:cpu-clock/callchain=dwarf,regs/ -- ./burning 3 jitdump
record calls -e trail/soft/ -- ./watched types
record crash -e trail/soft/ -e sample:cpu-clock/callchain/ -- ./crash
[ ${#traces[@]} -gt 0 ] || fail "nothing could be recorded: $(cat ./*.words)"

"$WAYMARK_BUILD/cli/agent_fuzz" "$seconds" "$seed" >agent 2>&1 &
"$WAYMARK_BUILD/cli/consumers_fuzz" "$seconds" "$seed" "${traces[@]}" >readers 2>&1 || fail "readers: $(tail -n 60 readers)"
wait $! || fail "agent: $(tail -n 60 agent)"
runs=$(awk '/inputs from seed/ { sum += $1 } END { print sum + 0 }' agent readers)
[ "$runs" -gt 0 ] || fail "nothing was run"
echo "${#traces[@]} traces, seed $seed"
echo "figure fuzz.consumers_runs $runs runs"
echo "figure fuzz.consumers_runs.seconds $seconds s"
exit $failed
