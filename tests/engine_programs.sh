#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs made at random (fuzz/program_make.py) do under the engine what they do natively: each register at each checkpoint, and all
# of their memory. And the trail that is kept of them is that of `step`, block for block.
#
# engine_programs.sh [FIRST LAST]: these seeds instead, for longer runs
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark
export PYTHONDONTWRITEBYTECODE=1
command -v cc >/dev/null || skip "no C compiler"
first=${1:-1} last=${2:-6}

# make SEED OPTION...: the program ./program
make_program()
{
	"$source_dir/fuzz/program_make.py" "$@" >program.S || fail "seed $1: no program"
	cc -w -nostdlib -static -no-pie -Wl,-z,noexecstack -o program program.S || fail "seed $1: it does not assemble"
}

# Functions that return elsewhere, with flags that count.
cc -nostdlib -static -no-pie -Wl,-z,noexecstack -o program "$source_dir/tests/targets/returns.S" || exit 1
timeout 60 "$waymark" record -v -e trail/soft/ -o returns -- ./program 2>words
expect "returns.S" $? 7
# Faults whose handler continues elsewhere.
cc -O1 -o program "$source_dir/tests/targets/resumed.c" || exit 1
timeout 60 "$waymark" record -v -e trail/soft/ -o resumed -- ./program 2>words
expect "resumed.c" $? 7

# Flags, those that rt_sigreturn(2) does not restore among them.
cc -O2 -I"$source_dir/include" "$source_dir/tests/probes/flags.c" \
	"$source_dir/tests/probes/flags_portable.c" -o flags -lpthread || exit 1
unkept=$(flags_unkept ./flags) || fail "flags.c: natively it does not pass"
[ "$unkept" = 0 ] || echo "not compared, this machine loses them natively: flags $unkept (NT)"
timeout 60 "$waymark" record -v -e trail/soft/ -o flags.trail -- ./flags 60 "$unkept" >native 2>words
expect "flags: $(grep -v 'wrong 0' native) $(cat words)" "$(grep -c 'wrong 0' native)" 7

# Hot traces whose branches go both ways: the trail says of each function what the program has counted.
cc -O1 -o ways "$source_dir/tests/targets/ways.c" || exit 1
timeout 60 "$waymark" record -v -e trail/soft/ -o ways.trail -- ./ways >native 2>words
timeout 60 "$waymark" trail --functions -n 0 ways.trail >shown 2>>words
while read -r name count; do
	expect "ways.c: calls of $name: $(cat words)" "$(awk -v name="$name" '$6 == name { print $3 }' shown)" "$count"
done <native
expect "ways.c: functions" "$(wc -l <native)" 5

# as_native SEED OPTION...: run natively, and under the engine
as_native()
{
	make_program "$@"
	timeout 20 ./program >native
	expect "seed $*: natively" $? 7
	rm -rf soft
	timeout 60 "$waymark" record -v -e trail/soft/ -o soft -- ./program >engine 2>words
	status=$?
	expect "seed $*: under the engine: $(cat words)" $status 7
	cmp native engine || fail "seed $*: it has other results under the engine"
}

for seed in $(seq "$first" "$last"); do
	as_native "$seed"
done
# Until the engine lays hot code out again.
for seed in $(seq "$first" 3 "$last"); do
	as_native "$seed" --fuel 10 --rounds 300
done
# And what was kept of it.
for seed in $(seq "$first" 4 "$last"); do
	as_native "$seed" --fuel 4
	rm -rf step
	timeout 100 "$WAYMARK_BUILD/tests/trail_oracle/waymark-oracle" record -v -e trail/auto/ -o step -- ./program >stepped 2>words
	status=$?
	expect "seed $seed: by steps: $(cat words)" $status 7
	cmp native stepped || fail "seed $seed: it has other results by steps"
	timeout 60 "$waymark" diff soft step >shown 2>words
	status=$?
	expect "seed $seed: the trails are not the same: $(cat shown words)" $status 0
	for trace in soft step; do
		timeout 60 "$waymark" trail --instructions -n 0 "$trace" 2>words | grep -v 'process\|system call\|ended' |
			sed 's/^ *[0-9.]* *//' >"$trace.listed"
	done
	cmp soft.listed step.listed || fail "seed $seed: other instructions are listed"
done

exit "$failed"
