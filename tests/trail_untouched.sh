#!/bin/bash
# SPDX-License-Identifier: MIT
# A program that was recorded by translation, or is, has what it had: actions and signals, its terminal, its limits.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"
needs_engine

soft=(-e trail/soft/)

# whole NAME: the trail in that folder can be read
whole()
{
	timeout 60 "$waymark" trail "$1" >/dev/null 2>words || fail "trail $1: $(cat words)"
}

# SIGTRAP ignored: children have it as it was, and so has who is let go.
for follow in "" --no-follow; do
	# shellcheck disable=SC2086 # none, or one
	run 14 "${soft[@]}" $follow -o "bequeathed$follow" -- ./trailed g
	whole "bequeathed$follow"
done
start ./trailed G 1000000
await has_trap "$pid" SigIgn || fail "it does not ignore SIGTRAP"
ignores=$(field "$pid" SigIgn)
for number in 1 2 3; do
	run 0 "${soft[@]}" --for 200ms -o "ignored$number" -p "$pid"
	expect "what it ignores once let go" "$(field "$pid" SigIgn)" "$ignores"
	kill -TRAP "$pid"
	goes_on "$pid" "a SIGTRAP, which it ignores"
	whole "ignored$number"
done
lent=$(grep -c ' rw-p .* 0 *$' "/proc/$pid/maps")
start ./trailed G 1000000
expect "memory lent to it" "$lent" "$(grep -c ' rw-p .* 0 *$' "/proc/$pid/maps")"

# SIGTRAP blocked: what is sent comes later, and says what it did; what is raised is the end.
for mode in 15:h 18:r 133:d; do
	./trailed "${mode#*:}"
	expect "untouched: ${mode#*:}" $? "${mode%:*}"
	run "${mode%:*}" "${soft[@]}" -o "blocked_${mode#*:}" -- ./trailed "${mode#*:}"
	whole "blocked_${mode#*:}"
done
timeout 60 "$waymark" dump blocked_d >dumped
grep -q 'trail:end: .*reason = 1, number = 5' dumped || fail "its trail does not end by SIGTRAP"

# Limits of the recorder's shell.
(
	ulimit -n 20
	run 7 "${soft[@]}" -o limited -- ./trailed l 100
	exit "$failed"
) || failed=1
whole limited
"$waymark" record "${soft[@]}" -o spared -p "$pid" 2>words &
recorder=$!
child_of $recorder waymark-tracer
tracer=$child
if (echo -1000 >/proc/self/oom_score_adj) 2>/dev/null; then
	expect "who traces is the last to be killed" "$(cat "/proc/$tracer/oom_score_adj")" -1000
	expect "the program is not" "$(cat "/proc/$pid/oom_score_adj")" "$(cat /proc/self/oom_score_adj)"
fi
kill -TERM $recorder
wait $recorder

# A program that is setuid or setgid has its rights, so the trail ends where it begins; SIGTRAP is ignored if it was.
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$folder"
	mkdir -m 0777 theirs
	other=(env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
	for bits in 4755 2755; do
		cp trailed rights
		chmod $bits rights
		"${other[@]}" ./trailed x ./rights u
		if [ $? -ne 16 ]; then
			echo "where no such bit counts it is not tried: $bits"
			continue
		fi
		for ignored in "" TRAP; do
			name=theirs/rights$bits$ignored
			(
				[ "$ignored" ] && trap '' TRAP
				exec "${other[@]}" timeout -k 5 60 "$waymark" record "${soft[@]}" -o "$name" -- ./trailed x ./rights u
			) >out 2>words
			expect "a program of mode $bits, ignoring ${ignored:-nothing}" $? "$([ "$ignored" ] && echo 18 || echo 16)"
			says "executed a program that gains rights; the trail ends there"
			grep -q "ignored SIGTRAP" words && fail "$name: $(cat words)"
			whole "$name"
		done
	done
	run 17 "${soft[@]}" -o rights_of_root -- ./trailed x ./rights u
else
	echo "without root a setuid program is not tried"
fi

exit "$failed"
