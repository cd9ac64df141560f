#!/bin/bash
# SPDX-License-Identifier: MIT
# Counts of spans (count=NAME): of a program whose faults, switches and CPU time are known; in
# threads that end, forked children and signal handlers; what is refused, and how; a program that
# filters its own system calls.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs code-change
cc -O2 -I"$source_dir/include" "$source_dir/tests/targets/costly.c" -o costly -lpthread || exit 1
all="cost:*/count=task-clock+page-faults+context-switches/"

# costs NAME MODE [SPEC]: records the program; its own reading is in ./own, the report in
# ./summary.json
costs()
{
	rm -rf "$1"
	run 0 -o "$1" -e "${3:-$all}" -- ./costly "$2"
	cp out own
	"$waymark" report --json "$1" >summary.json || fail "report $1: status $?"
}

# of EXPRESSION: of tests/span_costs.py
of() { python3 "$source_dir/tests/span_costs.py" "$1"; }

# holds EXPRESSION
holds()
{
	[ "$(of "$1")" = True ] ||
		fail "not so: $1: $(cat own) $(of '{name: s[name]["counts"] for name in s if s[name]["count"]}')"
}

# What is known, and what the program itself reads around its spans.
costs work work
holds '11 * 100 <= faults("faults") <= own["faults"]'
holds 'c("faults", "page-faults")["max"] >= 100'
holds 'faults("outer") >= 100'
holds '50 <= switches("sleeps") <= own["switches"]'
holds '10 * 9000000 <= c("burns", "task-clock")["sum"] <= own["cpu_ns"]'
holds 'c("burns", "task-clock")["unit"] == "ns" and c("burns", "page-faults")["unit"] == ""'
holds 'whole("faults", "sleeps", "burns", "outer")'
"$waymark" report work >text
grep -q '^cost:faults  *page-faults  *[0-9]* ' text || fail "report: no line of page faults"
"$waymark" dump work >text
all_counts='count_task_clock = [0-9]*, count_page_faults = [0-9]*, count_context_switches'
grep -q "cost:faults:begin: { .*$all_counts" text || fail "dump: $(head -n 3 text)"
grep -q 'cost:point.*count_task_clock = [0-9]' text || fail "a plain event has no counts"
if command -v babeltrace2 >/dev/null; then
	babeltrace work >text 2>&1
	grep -q 'count_page_faults = [0-9]' text || fail "babeltrace2 sees no counts: $(head -n 3 text)"
fi

# The faults on the store's own pages are not the spans'. The kernel may add one of its own now and
# then.
for _ in 1 2 3 4 5; do
	[ "$(of 'faults("faults")')" != 1100 ] || break
	costs work work
done
holds 'faults("faults") == 1100'

# One marker alone has them, and only those named.
rm -rf few
run 0 -o few -e 'cost:*' -e 'marker:cost:faults/count=faults/' -- ./costly work
"$waymark" report --json few >summary.json
holds '[count["name"] for count in s["faults"]["counts"]] == ["page-faults"]'
holds 's["sleeps"]["counts"] == []'

# 200 threads that end, 50 at once.
costs threads threads
holds 's["faults"]["calls"] == 200 and whole("faults") and faults("faults") >= 200 * 100'
holds 'faults("faults") <= own["faults"] or own["faults"] < 200 * 100'

# A handler's span is in the one that it interrupts.
costs signals signals
holds 's["faults"]["calls"] == 10 and whole("faults", "interrupted")'
holds 'faults("interrupted") >= faults("faults") >= 10 * 100'

# A child's counts are its own: it ends a span that it did not begin.
costs forks forks
holds 's["faults"]["calls"] == 10 and whole("faults") and faults("faults") >= 10 * 100'
holds 's["forked"]["calls"] == 10 and s["forked"]["unbegun"] == 10 and whole("forked")'

# A filter that knows none of the system calls: the program lives, and what could not be read is no
# 0.
costs filters filters
holds 's["filtered"]["calls"] == 20'
holds 'all(count["unavailable"] >= 10 for count in s["filtered"]["counts"])'
holds 'all(count["spans"] + count["unavailable"] == 20 for count in s["filtered"]["counts"])'
"$waymark" report filters >text
grep -qE ' task-clock .* 1[0-9]$' text ||
	fail "report: it does not say so: $(cat text)"

# One that binds all threads would end the agent's thread, and with it the program: the agent ends
# first, and the recording with it.
costs filters-all filters-all
holds 's["filtered"]["calls"] == 10 and whole("filtered")'
"$waymark" report filters-all >text
grep -q 'a seccomp filter might kill the process' text || fail "report: no reason in: $(cat text)"

# A filter that the tool has too is no reason.
rm -rf under
./costly under timeout -k 5 60 "$waymark" record -o under -e "$all" -- ./costly work >own 2>words ||
	fail "under a filter: $(cat words)"
"$waymark" report --json under >summary.json
holds 'whole("faults") and faults("faults") >= 11 * 100'

# Two recordings of one marker, attached to a running program: one with counts and one without.
start ./costly forever
begin_record -o without -e cost:sleeps -p "$pid"
await is_recording without || fail "nothing is recorded: $(cat words)"
timeout -k 5 60 "$waymark" record -o with -e cost:sleeps/count=cs/ --for 500ms -p "$pid" \
	2>with_words ||
	fail "with counts: $(cat with_words)"
end_record 0 INT
kill -9 "$pid"
"$waymark" dump with >text
grep -q 'sleeps:end: { count_context_switches = [0-9]* }' text || fail "with: $(head -n 3 text)"
"$waymark" dump without >text
! grep -q count_ text || fail "without: $(grep -m 1 count_ text)"
"$waymark" report --json with >summary.json
holds 's["sleeps"]["calls"] and whole("sleeps")'
holds 'switches("sleeps") >= 5 * s["sleeps"]["calls"]'

# What is no count of a marker.
bad 1 'did you mean page-faults' -e 'cost:*/count=page-fault/' -- ./costly work
bad 1 'task-clock, page-faults' -e 'cost:*/count=zzz/' -- ./costly work

# Counts of the processor, read by the threads themselves; or a refusal by name, before the program
# starts.
rm -rf counted
if "$waymark" record -o counted -e 'cost:*/count=instructions+cache-misses/' -- ./costly work \
	>own 2>words; then
	"$waymark" report --json counted >summary.json
	holds 'c("burns", "instructions")["sum"] >= 1000000'
else
	bad 1 'instructions' -e 'cost:*/count=instructions+cache-misses/' -- ./costly work
fi
bad 1 'count takes 4' -e 'cost:*/count=cs+faults+minor-faults+major-faults+task-clock/' -- ./costly work
bad 1 'is an option of marker' -e 'func:main/count=cs/' -- ./costly work
bad 1 'is an option of marker' -e 'usdt:*:*/count=cs/' -- ./costly work

# No more than 16 fields.
run 1 -o full -e 'wide:full/count=cs/' -- ./costly work
says '  1: wide:full: '
says 'one event has no room for all that was asked for'
run 0 -o most -e 'wide:*/count=cs/' -- ./costly work
"$waymark" dump most >text
grep -q 'wide:most: .*count_context_switches = [0-9]' text ||
	fail "15 fields leave no room for a count: $(cat text words)"
! grep -q 'wide:full' text || fail "17 fields"

# An ordinary user.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 . && mkdir -m 0700 theirs theirs/run && chown -R nobody theirs
	(cd theirs && XDG_RUNTIME_DIR=$PWD/run setpriv --reuid nobody --clear-groups \
		timeout 60 "$waymark" record -o user -e "$all" -- ../costly work >own 2>words) ||
		fail "as nobody: $(cat theirs/words)"
	cp theirs/own own
	"$waymark" report --json theirs/user >summary.json
	holds 'faults("faults") >= 11 * 100 and whole("sleeps") and switches("sleeps") >= 50'
else
	echo "without root and setpriv no ordinary user is tried"
fi
exit $failed
