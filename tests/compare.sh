#!/bin/bash
# SPDX-License-Identifier: MIT
# `waymark report A B`: a program and a slower version of it; one run that two recorders saw.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

build_target compared.c

# of TABLE NAME MEMBER: of that row of ./sums
of()
{
	python3 -c 'import json, sys
rows = {next(iter(row.values())): row for row in json.load(open("sums"))[sys.argv[1]]}
print(rows[sys.argv[2]][sys.argv[3]])' "$@"
}

# at_least WHAT GOT LEAST
at_least()
{
	python3 -c 'import sys; sys.exit(float(sys.argv[1]) < float(sys.argv[2]))' "$2" "$3" ||
		fail "$1: $2, expected $3 or more"
}

# ---- a slower version ----

run 0 -o before -- ./compared 20000 1000 1
run 0 -o after -- ./compared 20000 5000 20
"$waymark" report before after >text || fail "report: $?: $(cat text)"
"$waymark" report --json before after >sums || fail "report --json: $?"
expect "the slower span" "$(of span_change work:spin change)" slower
at_least "its ratio" "$(of span_change work:spin ratio)" 2
at_least "its lower bound" "$(of span_change work:spin ratio_low)" 1.5
at_least "the time that it adds" "$(of span_change work:spin added_ns)" 1000000
grep -q '^work:spin  *slower ' text || fail "no slower span in: $(cat text)"
expect "the frequent event" "$(of event_change work:extra change)" "more frequent"
expect "its counts" "$(of event_change work:extra count_before) $(of event_change work:extra count_after)" "20000 400000"
expect "same work in more time" "$(of event_change work:steady:begin change)" None
grep -q '^work:extra  *more frequent ' text || fail "no event in: $(cat text)"
grep -q '^Events       1 of 3 changed significantly$' text || fail "no count of events: $(cat text)"
"$waymark" report --csv before after | grep -q 'work:spin"*,"*slower"*,' || fail "--csv: no work:spin"
"$waymark" report -n 0 after before | grep -q '^work:spin  *faster ' || fail "the other way round: not faster"

# ---- one run, recorded twice ----

# work:waiting comes each 500 ms until then
start_ready ./compared 20000 20000 1 --wait
recorders=()
for name in one other; do
	timeout -k 5 100 "$waymark" record -e 'work:*' -o $name -p "$pid" >out.$name 2>words.$name 7>&- &
	recorders+=($!)
	await_event $name work:waiting
done
exec 7>&-
wait "${recorders[@]}" || fail "record -p: $?: $(cat words.*)"
"$waymark" report one other >text || fail "report: $?: $(cat text)"
grep -q '^Spans        no significant change of 2$' text || fail "one run has changed spans: $(cat text)"
grep -q '^Events       no significant change of 4; ' text || fail "one run has changed events: $(cat text)"
grep -q '^SPAN\|^EVENT' text && fail "there are rows: $(cat text)"
"$waymark" report --json one other >sums || fail "report --json: $?"
expect "a span without change" "$(of span_change work:spin change)" None

# ---- what can't be compared ----

mkdir empty
"$waymark" report one empty >text 2>words
expect "no trace: status" $? 1
grep -q 'no trace: empty' words || fail "no trace: $(cat words)"
"$waymark" report --functions one other >text 2>words
expect "two traces and an option of one: status" $? 2
exit $failed
