#!/bin/bash
# SPDX-License-Identifier: MIT
# No reader of the command crashes where an allocation fails: chosen at random, for some seconds.
# What crashes inside of libdw is libdw's.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

command -v cc >/dev/null || skip "no C compiler"
[ -x "$WAYMARK_BUILD/cli/no_memory" ] || skip "a sanitizer has an allocator of its own"
for program in watched burning ../../examples/spans; do
	build_target $program.c
done

# record NAME ARGUMENT...
record()
{
	timeout -k 5 60 "$WAYMARK_BUILD/cli/waymark" record -o "$1" "${@:2}" >"$1.words" 2>&1 </dev/null ||
		fail "record $1: $(cat "$1.words")"
}

record markers -e 'marker:*:*' -e count:task-clock -- ./spans
record jit -e sample:cpu-clock/callchain/ -- ./burning 10 jit
record calls -e trail/soft/ -- ./watched types
"$WAYMARK_BUILD/cli/no_memory" "${WAYMARK_FUZZ_SECONDS:-12}" "${WAYMARK_FUZZ_SEED:-1}" ./spans \
	markers jit calls >runs 2>&1 || fail "a command crashes: $(tail -n 100 runs)"
grep -q '^[1-9][0-9]* inputs' runs || fail "nothing was run: $(cat runs)"
exit $failed
