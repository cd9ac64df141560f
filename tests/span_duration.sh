#!/bin/bash
# SPDX-License-Identifier: MIT
# Spans of markers that are one event, with their duration, are those of the begins and ends of the same recording.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

command -v python3 >/dev/null || skip "no python3"
build_target spanned.c

# both WAY SPEC EXPRESSION [lossy]: what marker:SPEC records beside all begins and ends; how many in $count
both()
{
	local got glob=${2%%/*}
	rm -rf t
	run 0 --json --buffer 64M -o t -e 'job:*' -e "marker:$2" -- ./spanned "$1"
	"$waymark" dump --json t >events || fail "$1, $2: dump"
	got=$(python3 "$source_dir/tests/span_duration.py" "$3" "${glob/job:\*/\*}" ${4+"$4"} <events) ||
		fail "$1, $2: the spans differ"
	count=${got% *}
	# a handler's hits in a thread's first one are discarded, too
	[ $# -eq 4 ] || expect "$1, $2: discarded" "$(json discarded)" "${got#* }"
	[ "$(json discarded)" -ge "${got#* }" ] || fail "$1, $2: discarded: $(json discarded) of ${got#* }"
	[ "${count:-0}" -gt 0 ] || fail "$1, $2: no spans"
}

# alone WAY SPEC ENDS: the same spec without others records as many; others of ENDS are rejected or discarded
alone()
{
	rm -rf t
	run 0 --json --buffer 64M -o t -e "marker:$2" -- ./spanned "$1"
	expect "$1, $2, alone" "$(json recorded)" "$count"
	expect "$1, $2, alone: rejected" "$(found rejected)" $(($3 - count - $(json discarded)))
}

# ---- in each way, all of them; of those deeper than 8 the oldest are discarded ----

both plain 'job:*/if=duration>=0/' True
expect "all spans" "$count" $((8 * (400 * 4 + 8) + 1))
alone plain 'job:*/if=duration>=0/' $((8 * (400 * 4 + 12) + 1))
for way in fork jump across; do
	both "$way" 'job:*/if=duration>=0/' True
done
# a handler that comes between two instructions of a begin may cost that one
both signals 'job:*/if=duration>=0/' True lossy
grep -q '"path":"signal"' events || fail "no span of a handler"

# a handler's begins, while an end is recorded, go in the places of others
rm -rf t
run 0 --json -o t -e 'marker:job:*/if=duration>=0/' -- ./spanned fault
"$waymark" dump t | cut -d' ' -f4- >events
expect "recorded in a fault" "$(json recorded) $(json discarded)" "2 7"
grep -q 'job:oldest.*number = 7, text = "", again = 7, duration = ' events || fail "in a fault: $(cat events)"

# ---- conditions on the begin's fields, on the end's, and on the duration ----

for test in 'if=duration>=0,if=status>150|f.status > 150' 'if=path~"x*",if=duration<1h|str(f.path).startswith("x")' \
	'if=duration>0,if=thread>=2,if=status<9,if=path!="GET /"|f.thread >= 2 and f.status < 9 and f.path not in ("GET /", None)' \
	'if=text=="GET /",if=tid>0,if=duration>=0|f.text == "GET /"'; do
	both plain "job:request/${test%%|*}/" "${test#*|}"
	alone plain "job:request/${test%%|*}/" 3200
	both fork "job:request/${test%%|*}/" "${test#*|}"
	alone fork "job:request/${test%%|*}/" 6400
done
run 0 -o few -e 'marker:job:request/if=duration>=2ms,bt=1/' -- ./spanned
"$waymark" dump few >events
[ "$(grep -cE 'job:request: .*round = [0-3]?50, ' events)" -eq 32 ] || fail "slow requests: $(cat events)"
grep -qE '#[01] work ' events || fail "no callers: $(head -n 3 events)"

# ---- sums, by fields of both ----

rm -rf t
run 0 -o t -e 'marker:job:request/hist=duration,sum=round,by=path,by=status/' -- ./spanned
"$waymark" report --sums --json t | python3 -c 'import json, sys
text = json.load(sys.stdin)
rows = [row for row in text["sum"] if row.get("field") == "round"]
texts = ["GET /", "", "POST /a?b=1, 2", None]
wanted = {}
for round in range(400):
	path = texts[round % 4] if round % 7 else "x" * 63
	key = path, round % 200
	was = wanted.get(key, (0, 0))
	wanted[key] = was[0] + 8, was[1] + 8 * round
got = sorted((row["count"], row["sum"]) for row in rows)
assert got == sorted(wanted.values()), (got, sorted(wanted.values()))' || fail "sums"
timeout 60 "$waymark" top --json -e 'marker:job:request/hist=duration,by=thread/' -- ./spanned >out 2>words ||
	fail "top: $(cat words)"
python3 -c 'import json
rows = [row for line in open("out") for row in json.loads(line).get("sum", [])]
counts = {}
for row in rows:
	counts[row["by"]] = counts.get(row["by"], 0) + row["count"]
assert counts == {str(i): 400 for i in range(8)}, counts' || fail "top: $(head -c 2000 out)"

# ---- a begin that a recording has not seen; one that another recording saw ----

start_ready ./spanned wait
program=$pid
attached()
{
	"$waymark" record --json -o "$1" -p "$program" -e 'marker:job:across/if=duration>=0/' >"$1.out" 2>"$1.words" &
	recorder=$!
	await is_armed || fail "$1: not armed: $(cat "$1.words")"
}
is_armed() { "$waymark" list -p "$program" | grep -qE "^job:across +begin +[0-9]+ +[1-9]"; }
detached()
{
	kill -TERM "$recorder"
	wait "$recorder" || fail "$1: $(cat "$1.words")"
	cp "$1.out" out
	expect "$1: recorded" "$(json recorded)" "$2"
	expect "$1: discarded" "$(json discarded)" "$3"
}
ended() { [ "$(grep -c ended said)" -eq "$1" ]; }
attached first
echo >&7
await ended 1
detached first 0 1
attached second
echo >&7
await ended 2
echo >&7
await ended 3
detached second 1 1
exec 7>&-

# ---- refused, by name ----

# refused WORDS SPEC...: a recording of these has no event, and says why
refused()
{
	local said=$1 specs=() spec
	shift
	for spec; do specs+=(-e "$spec"); done
	rm -rf t
	run 1 -o t "${specs[@]}" -- ./spanned
	grep -qF -- "$said" words || fail "$*: expected '$said' in: $(cat words)"
}
refused 'it has no field lift; did you mean left?' 'marker:job:deep/if=duration>1ms,if=lift>1/'
refused 'a span with its duration has no counts' 'marker:job:deep/if=duration>1ms,count=page-faults/'
refused 'or both the duration of spans' 'marker:job:deep/if=duration>1ms/' 'marker:job:d*p/if=duration>2ms/'
refused "a field can't be compared so" 'marker:job:deep/if=duration~"1*"/'
refused 'it has no field duration: functions have it, and spans' 'marker:job:left/if=duration>1ms/'

# begin and end are events, and nothing more is lost
rm -rf t
run 0 --json -o t -e 'job:*' -e 'marker:job:wide/if=duration>=0/' -- ./spanned wide
expect "wide spans" "$(json recorded) $(json discarded)" "20 0"

# ---- a snapshot of what led to a slow span ----

run 0 --last 8M --on 'marker:job:request/if=duration>=2ms/' -o snapshots -e 'job:*' -- ./spanned
"$waymark" dump snapshots/0001 >events || fail "no snapshot: $(cat words)"
for name in job:request job:request:begin job:request:end; do
	grep -qE " ${name}(:| )" events || fail "the snapshot has no $name"
done
! grep -q "no such field" words || fail "begins and ends are no triggers: $(cat words)"

exit $failed
