#!/bin/bash
# SPDX-License-Identifier: MIT
# `waymark record --locks` and `waymark report --locks`: mutexes that known threads hold while others
# wait, against what the program says.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

build_target locked.c

# lock MUTEX WAITER HOLDER MEMBER: of that row of ./sums; empty without such a row
lock()
{
	python3 -c 'import json, sys
mutex, waiter, holder, member = sys.argv[1:]
for row in json.load(open("sums"))["lock"]:
    if (row["mutex"], row["waiter_tid"], row["holder_tid"]) == (mutex, int(waiter), int(holder)):
        print(row[member])' "$@"
}

# said WHAT: the numbers that the program printed of it
said() { sed -n "s/^$1 //p" said; }

timeout -k 5 100 "$waymark" record --locks -o trace -- ./locked >said 2>words || fail "record: $?: $(cat words)"
"$waymark" report --locks --json trace >sums || fail "report --json: $?"
"$waymark" report --locks trace >text || fail "report: $?"

keeper=$(said keeper)
line=$(grep -n 'pthread_mutex_lock(mutex)' "$source_dir/tests/targets/locked.c" | cut -d: -f1)
for waiter in $(said waiter); do
	expect "waits for the keeper" "$(lock kept "$waiter" "$keeper" waits)" 8
	[ "$(lock kept "$waiter" "$keeper" waited_ns)" -ge $((8 * 2000000)) ] ||
		fail "waited $(lock kept "$waiter" "$keeper" waited_ns) ns"
	# from the end of the lock to the begin of the unlock is no less than between
	[ "$(lock kept "$waiter" "$keeper" held_ns)" -ge "$(said held)" ] ||
		fail "held $(lock kept "$waiter" "$keeper" held_ns) ns, but the keeper measured $(said held)"
	expect "where the keeper locked it" "$(lock kept "$waiter" "$keeper" place)" "keep (locked.c:$line)"
	[ "$(lock kept "$waiter" "$keeper" longest_ns)" -ge 2000000 ] || fail "a short longest wait"
done
expect "one that times out: waiters of main" "$(grep -o "\"holder_tid\":$(said main)," sums | wc -l)" 1
expect "mutexes that threads waited for" "$(grep -o '"mutex":"[^"]*"' sums | sort -u | wc -l)" 2
for thread in listener impatient; do
	expect "$thread holds nothing" "$(grep -c "\"holder_tid\":$(said $thread)," sums)" 0
done
expect "the listener waits for no mutex" "$(grep -c "\"waiter_tid\":$(said listener)," sums)" 0
grep -q "^kept  *[a-z]*-[0-9]*  *[a-z]*-$keeper  *8 " text || fail "no keeper in: $(cat text)"

# ---- nothing to report ----

run 0 -o none -e 'func:pthread_mutex_*lock/arg1,ret:i32/' -- true
"$waymark" report --locks none >text 2>words || fail "report: $?: $(cat words)"
expect "no waits" "$(cat text)" "No thread waited for a mutex that another held."
run 0 -o other -e 'func:usleep/ret/' -- ./locked
"$waymark" report --locks other >text 2>words
expect "another trace: status" $? 1
grep -q 'no such thing: calls that lock a mutex' words || fail "another trace: $(cat words)"
exit $failed
