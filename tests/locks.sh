#!/bin/bash
# SPDX-License-Identifier: MIT
# `waymark record --locks` and `waymark report --locks`: mutexes that known threads hold while others
# wait, against what the program says; with `--waits`, what they wait for.
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

# ---- what threads wait for ----

timeout -k 5 100 "$waymark" record --waits -o calls -- ./locked >said 2>words || fail "record --waits: $?: $(cat words)"
"$waymark" report --waits --json calls >sums || fail "report --waits --json: $?"
"$waymark" report --waits calls >text || fail "report --waits: $?"

# wait_of CALL FOR CALLER MEMBER: of that row of ./sums; empty without such a row
wait_of()
{
	python3 -c 'import json, sys
call, object, caller, member = sys.argv[1:]
for row in json.load(open("sums"))["wait_call"]:
    if row["call"] == call and (row["for"] == object or row["for"] == row["address"]) and row["stack"].startswith(caller + " <"):
        print(row[member])' "$@"
}

# each of the two waits until the keeper has seen both sleep, eight times
expect "waits for the mutex" "$(wait_of pthread_mutex_lock kept waiter count)" 16
[ "$(wait_of pthread_mutex_lock kept waiter time_ns)" -ge $((16 * 2000000)) ] ||
	fail "waited $(wait_of pthread_mutex_lock kept waiter time_ns) ns"
woken_by=$(wait_of pthread_mutex_lock kept waiter woken_by)
# the second of them is woken by the first
[[ " $(said keeper) $(said waiter | tr '\n' ' ') " == *" ${woken_by##*-} "* ]] || fail "woken by $woken_by"
expect "the listener's waits" "$(wait_of pthread_cond_wait "bells[1].condition" listener count)" 1
woken_by=$(wait_of pthread_cond_wait "bells[1].condition" listener woken_by)
expect "woke the listener" "${woken_by##*-}" "$(said main)"
[ "$(wait_of pthread_mutex_timedlock heap impatient time_ns)" -ge 9000000 ] || fail "the impatient did not wait: $(cat text)"
expect "attempts are no waits" "$(grep -c trylock text)" 0
grep -qE '^[a-z]*  *pthread_join  *-  ' text || fail "main joins no one: $(cat text)"
run 0 -o slow --waits -e 'func:impatient/ret/' -- ./locked
"$waymark" report --slowest 1 --event '*impatient' slow >text || fail "report --slowest: $?"
grep -qE ' locked:impatient  *[0-9.]+ ms  pthread_mutex_timedlock\(0x[0-9a-f]+\) ' text ||
	fail "what the slowest waited for: $(cat text)"
# sleep's own wait, and that for its end, are what is recorded
run 0 -o pipes --waits -- sh -c '(sleep 0.05; echo) | { read -r x; }'
"$waymark" report --waits pipes >text || fail "report --waits: $?"
grep -qE '^sh  *read  *fd 0  ' text || fail "no wait for a pipe: $(cat text)"
grep -qE '^sleep  *clock_nanosleep  *-  *1  ' text || fail "no sleep: $(cat text)"

# ---- nothing to report ----

run 0 -o none -e 'func:pthread_mutex_*lock/arg1,ret:i32/' -- true
"$waymark" report --locks none >text 2>words || fail "report: $?: $(cat words)"
expect "no waits" "$(cat text)" "No thread waited for a mutex that another held."
run 0 -o other -e 'func:usleep/ret/' -- ./locked
"$waymark" report --locks other >text 2>words
expect "another trace: status" $? 1
grep -q 'no such thing: calls that lock a mutex' words || fail "another trace: $(cat words)"
"$waymark" report --waits other >text 2>words
expect "another trace: status" $? 1
grep -q 'no such thing: calls that wait (record --waits), or switches' words || fail "another trace: $(cat words)"
exit $failed
