#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches: each write is there once, with who, where, what was there and what is, in the order in which they were made;
# markers, probes and watches are in one trace; what is asked for is chosen, and the rest is counted.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-access breakpoint-execute

# Eight threads in turn: the known sequence.
watches turn 0 -e watch:in_turn -e func:write_one -- ./watched turn 100 8
grep -q right out || fail "the program: $(cat out)"
expect "hits" "$(json hits)" 800
expect "missed" "$(json missed)" 0
expect "discarded" "$(json discarded)" 0
field_values turn in_turn new >new
seq 1 800 | cmp -s - new || fail "the sequence: $(head -3 new) ... $(wc -l <new)"
field_values turn in_turn old >old
seq 0 799 | cmp -s - old || fail "what was there before: $(head -3 old)"
expect "how exact" "$(field_values turn in_turn how | sort -u)" 1
expect "threads" "$(of_events turn watch:in_turn tid | sort -u | wc -l)" 8
expect "the function beside it" "$("$waymark" dump turn | grep -c "watched:write_one")" 800
expect "one instruction" "$(field_values turn in_turn ip | sort -u | wc -l)" 1
"$waymark" report turn | grep -q "watch:in_turn *800 " || fail "report: $("$waymark" report turn)"
expect "babeltrace2" "$(events_in turn)" 1600
says "what the kernel itself writes, as for read(2), is not seen"

# The instruction is reported at its original address, though a probe moved it away.
watches moved 0 -e watch:in_turn -e func:store_first -- ./watched moved 10
expect "moved: hits" "$(json hits)" 10
expect "moved: how exact" "$(field_values moved in_turn how | sort -u)" 1
expect "moved: where" "$(field_values moved in_turn ip | sort -u | grep -o '...$')" "$(nm watched | awk '$3 == "store_first" { print $1 }' | grep -o '...$')"

race

# Exchanges report the value that they found.
watches add 0 -e watch:counted -- ./watched add 100 8
expect "hits of additions" "$(json hits)" 800
expect "missed of additions" "$(json missed)" 0

# Types.
watches types 0 -e watch:small -e watch:rate -e watch:narrow -- ./watched types
expect "floating point" "$(field_values types rate new | tr '\n' ' ')" "0 0.5 1 "
small_types
expect "missed of an object" "$(json missed)" 0
watches member 0 -e watch:order.price -- ./watched types
expect "a member" "$(field_values member order.price new | tr '\n' ' ')" "0 1.5 3 "

# Conditions.
watches some 0 -e 'watch:in_turn/if=value==10/' -- ./watched turn 10 2
expect "if=value" "$(field_values some in_turn new)" 10
reports some
expect "of those not taken" "$(json filtered)" 19
watches less 0 -e 'watch:small/if=value<-1/' -- ./watched types
expect "if=value<" "$(field_values less small new)" -2
watches changed 0 -e 'watch:small/if=changed/' -- ./watched types
expect "if=changed" "$(field_values changed small new | tr '\n' ' ')" "-1 -2 "
watches count 0 -e watch:in_turn/count/ -- ./watched turn 10 2
expect "count" "$(json counted) $(json recorded)" "20 0"
watches signal 138 -e 'watch:in_turn/if=value==5,signal=SIGUSR1/' -- ./watched turn 10 1
expect "signal" "$(field_values signal in_turn new)" 5

# Bit-fields: only their bits are reported, and a store beside them is no change.
build_target watch/parts.c
for way in "" ,outside; do
	watches bits 0 -e "watch:fields.a/if=changed$way/" -- ./parts
	expect "bits: signed$way" "$(field_values bits fields.a new | tr '\n' ' ')" "-2 -1 0 1 2 "
	watches bits 0 -e "watch:fields.b/if=changed$way/" -- ./parts
	expect "bits: unsigned$way" "$(field_values bits fields.b new | tr '\n' ' ')" "30 31 0 1 2 "
	watches bits 0 -e "watch:fields.c/if=changed$way/" -- ./parts
	expect "bits: bool$way" "$(field_values bits fields.c new | tr '\n' ' ')" "true false true false "
	watches bits 0 -e "watch:fields.d/if=changed$way/" -- ./parts
	expect "bits: wide$way" "$(field_values bits fields.d old | tr '\n' ' ')" "0 -2000000000 -1000000000 0 1000000000 "
done

# A masked store does not hit bytes that its mask excludes, though some debug registers fire.
build_target watch/masked.c -o masking
watches masked 0 -e watch:s.words -- ./masking
expect "masked stores: hits, missed" "$(json hits) $(json missed)" "2 0"
expect "masked stores: values" "$(field_values masked s.words new | tr '\n' ' ')" "1 2 "
[ "$(json masked)" -eq 0 ] || says "more not recorded: masked stores that wrote other bytes"

# Backtraces; watch_backtrace.sh compares them with those of gdb.
cc -O1 -g -fno-omit-frame-pointer "$source_dir/tests/targets/watched.c" -o framed -lpthread -ldl || exit 1
watches frames 0 -e watch:in_turn/bt=2/ -- ./framed turn 10 1
[ "$(field_values frames in_turn caller1 | sort -u | wc -l)" = 1 ] || fail "callers: $(field_values frames in_turn caller1)"
expect "hits without a caller" "$(field_values frames in_turn caller1 | grep -c '^0x0*$')" 0

# Who reads; who runs.
watches reads 0 -e watch:in_turn:rw -- ./watched turn 10 1
[ "$(json hits)" -gt 20 ] || fail "reads: $(json hits)"
expect "missed of reads" "$(json missed)" 0
watches runs 0 -e watch:write_one:x -- ./watched turn 10 1
expect "runs" "$(json hits)" 10
exit $failed
