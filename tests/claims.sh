#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark claims: what the ledger shows of owners who live, and of those who were killed.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

cp "$WAYMARK_BUILD/cli/waymark" "$WAYMARK_BUILD/tests/targets/claimant" . || skip "not built"
waymark=$folder/waymark
started=()

cleanup()
{
	[ ${#started[@]} -eq 0 ] || kill -9 "${started[@]}" 2>/dev/null
	rm -rf "$folder"
}
trap cleanup EXIT

export XDG_RUNTIME_DIR=$folder/run TZ=UTC
mkdir -m 0700 "$XDG_RUNTIME_DIR"

# start NAME COMMAND...: in the background; its first line in ./NAME, its pid in $pid
start()
{
	local name=$1
	shift
	"$@" >"$name" 2>&1 &
	pid=$!
	started+=("$pid")
	disown "$pid" # else the shell reports that it was killed
	executed "$pid"
}

# said NAME: its first line, once there is one
said()
{
	await [ -s "$1" ]
	head -1 "$1"
}

# claims STATUS ARGUMENT...: the command, its lines in ./out and ./err
claims()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" claims "$@" >out 2>err
	got=$?
	[ $got -eq "$wanted" ] || fail "claims $*: status $got, expected $wanted: $(cat err)"
}

start subject sleep 300
subject=$pid
start other sleep 300
other=$pid
start first ./claimant "$subject" watch:counter watch:total
first=$pid
expect first "$(said first)" claimed # it has the first block, then
start second ./claimant "$other" watch:other
second=$pid
expect second "$(said second)" claimed

user_and_time='[^ ]+ +[0-9. :-]+ +held'
claims 0
its="process +$subject  sleep +1 +4  claimant +$first  +$user_and_time"
grep -qE "^debug-register  $its +watch:counter +8  0x404040$" out ||
	fail "the first claim: $(cat out)"
expect "all claims" "$(grep -cE " claimant +($first|$second) " out)" 3

# of one process
claims 0 -p "$subject"
expect "claims on it" "$(grep -c "claimant  *$first " out)" 2
grep -q "watch:other" out && fail "another's: $(cat out)"

# for programs
claims 0 --json -p "$other"
python3 - "$other" "$second" <<'END' || fail "JSON: $(cat out)"
import json, sys
out = json.load(open("out"))
mine = [c for c in out["claim"] if c["pid"] == int(sys.argv[2])]
assert len(mine) == 1
claim = mine[0]
assert claim["resource"] == "debug-register" and claim["scope"] == "process"
assert claim["target"] == int(sys.argv[1]) and claim["target_name"] == "sleep"
assert claim["count"] == 1 and claim["of"] == 4 and claim["state"] == "held"
assert claim["for"] == "watch:other" and claim["address"] == "0x404040" and claim["bytes"] == 8
assert claim["holder"] == "claimant" and not claim["ended"]
assert out["damaged"] == 0 and out["tracer"] is None
END

# The message names the tracer.
if command -v strace >/dev/null; then
	start trace strace -o /dev/null -p "$other"
	tracer=$pid
	await is_traced "$other" || fail "strace does not trace it"
	claims 0 -p "$other"
	grep -q "^strace $tracer traces it" out || fail "the tracer: $(cat out)"
	kill -9 "$tracer"
fi

# Names that a terminal would obey.
start rude ./claimant "$subject" $'watch:\e[31mred'
expect rude "$(said rude)" claimed
claims 0
grep -q 'watch:\\x1b\[31mred' out || fail "escaped: $(cat out)"
kill -9 "$pid"

# A killed owner holds nothing, though no one has removed its claims.
kill -9 "$first"
await has_ended "$first" || fail "the first claimant does not end"
claims 0
expect "claims of a dead owner" "$(grep -c "claimant  *$first " out)" 0
expect "claims of the living" "$(grep -c "claimant  *$second " out)" 1

# A file that someone spoilt: said, and the rest is shown.
file=$(grep -lF watch:other "$XDG_RUNTIME_DIR"/waymark/*.claims)
printf 'xxxx' | dd of="$file" bs=1 seek=260 conv=notrunc 2>dd.err
claims 0
expect "a spoilt claim" "$(grep -c "claimant  *$second " out)" 0
grep -q "1 claim can't be read" err || fail "spoilt: $(cat err)"
rm "$file"

# A recording claims what it watches; a refusal names it; a killed one holds nothing.
# This part needs breakpoints that fire.
if why=$(lacks breakpoint-write breakpoint-signal); then
	echo "left out, claims of a recording: $why"
elif command -v cc >/dev/null && [ -e "$WAYMARK_BUILD/inside/libwaymark-agent.so" ]; then
	cp "$WAYMARK_BUILD/inside/libwaymark-agent.so" .
	export WAYMARK_AGENT=$folder/libwaymark-agent.so
	build_target watch/ticks.c
	start watching ./ticks
	watched=$pid
	start recording "$waymark" record -e watch:one -e watch:total -o watched.trace -p "$watched"
	recorder=$pid
	# has_claims PID NUMBER: ./out shows that it has so many, or it has ended
	has_claims()
	{
		claims 0 -p "$watched"
		[ "$(grep -c " waymark  *$1 " out)" -ge "$2" ] || has_ended "$1"
	}
	await has_claims "$recorder" 2 || fail "the recording claims nothing: $(cat out recording)"
	if has_ended "$recorder" && grep -qE "WM_E|forbids|permit" recording; then
		echo "no watch may be had here: $(head -1 recording)"
	else
		its="process +$watched  ticks +1 +4  waymark +$recorder  +$user_and_time"
		grep -qE "^debug-register  $its +watch:one +8 " out ||
			fail "a recording's claims: $(cat out recording)"
		timeout -k 5 60 "$waymark" record -e watch:a -e watch:b -e watch:c -o refused.trace -p "$watched" >out 2>err
		expect "one register too many" $? 1
		grep -q "waymark $recorder holds 2 (watch:one, watch:total)" err ||
			fail "the holder's name: $(cat err)"
		claims 0 -p "$watched"
		expect "claims of who was refused" "$(grep -c "^debug-register.* waymark " out)" 2
		grep -qE "^sigtrap +process +$watched  ticks +1 +-  waymark +$recorder " out ||
			fail "whose SIGTRAP: $(cat out)"
		claims 0
		its="process +$recorder  waymark +[0-9]+ +-  waymark +$recorder "
		grep -qE "^descriptors +$its.*watch:one" out ||
			fail "what descriptors it takes: $(cat out)"
		# removing the files does not release the claim
		rm "$XDG_RUNTIME_DIR"/waymark/*.claims
		await has_claims "$recorder" 3
		expect "claims that were written again" "$(grep -c " waymark  *$recorder " out)" 3
		kill -9 "$recorder"
		await has_ended "$recorder" || fail "a recorder that was killed does not end"
		claims 0 -p "$watched"
		expect "claims of a recording that was killed" "$(grep -c " waymark  *$recorder " out)" 0
	fi
fi

# Registers that are reserved: killed at any moment, and between users.
if why=$(lacks breakpoint-write); then
	echo "left out, reserved registers: $why"
elif cp "$WAYMARK_BUILD/examples/reserve" . 2>/dev/null; then
	mkfifo never
	exec 8<>never
	for round in {1..40}; do
		./reserve "$subject" 4 <&8 >reserve.out 2>&1 &
		pid=$!
		sleep "0.00$((round % 10))" # the moment is the subject
		kill -9 "$pid"
		wait "$pid" 2>/dev/null
		grep -q "^reserve:" reserve.out && fail "round $round: $(cat reserve.out)"
	done
	claims 0 -p "$subject"
	expect "claims of who was killed" "$(grep -c " reserve " out)" 0
	./reserve "$subject" 4 </dev/null >reserve.out 2>&1 ||
		fail "after all were killed: $(cat reserve.out)"
	expect "files of dead claimants" "$(find "$XDG_RUNTIME_DIR/waymark" -name "*.claims" | wc -l)" 0

	if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
		nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
		chmod 755 "$folder"
		start theirs "${nobody[@]}" sleep 300
		theirs=$pid
		start roots bash -c 'exec ./reserve "$1" 3 <&8' _ "$theirs" # else it would read /dev/null
		roots=$pid
		await [ -s roots ]
		if "${nobody[@]}" env -u XDG_RUNTIME_DIR ./reserve "$theirs" 2 </dev/null >refused.out 2>&1; then
			fail "nobody has registers that root reserved: $(cat roots refused.out)"
		fi
		grep -q "reserve $roots holds 3 (the example" refused.out || grep -q "not allowed" refused.out ||
			fail "nobody is not told of root's claim: $(cat refused.out)"
		kill -9 "$roots"
		await has_ended "$roots"
		"${nobody[@]}" env -u XDG_RUNTIME_DIR ./reserve "$theirs" 2 </dev/null >refused.out 2>&1 ||
			grep -q "not allowed" refused.out || fail "nobody, after root: $(cat refused.out)"
	fi
	exec 8>&-
fi

# If another user made /tmp/waymark-UID, the folder has no ledger of user UID.
if [ "$(id -u)" -eq 0 ] && mkdir -m 777 /tmp/waymark-64006 2>/dev/null; then
	claims 0
	rmdir /tmp/waymark-64006
fi

# Without a ledger the owner continues, with a warning. A link is no claim.
ln -s "$folder/elsewhere" "$XDG_RUNTIME_DIR/waymark/link.claims"
start without prlimit --fsize=200 ./claimant "$subject" watch:counter
expect "without a ledger" "$(said without)" EFBIG
kill -0 "$pid" || fail "without a ledger it ended"
claims 0
[ ! -e elsewhere ] || fail "the link was followed"
grep -q "1 claim can't be read" err || fail "a link for a ledger: $(cat err)"

# ---- the administrator's limits ----

# limited TEXT COMMAND...: with /etc/waymark/limits, in a mount namespace; its status in $status
limited()
{
	printf "$1" >limits.text
	shift
	# shellcheck disable=SC2016
	timeout -k 5 60 unshare -m bash -c 'mount -t tmpfs none /etc/waymark 2>/dev/null ||
		{ mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work &&
		mount -t overlay none -o "lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work" /etc &&
		mkdir /etc/waymark; } || exit 77
		cp limits.text /etc/waymark/limits && chmod "${LIMITS_MODE:-644}" /etc/waymark/limits
		exec "$@"' limited "$@" >out 2>err
	status=$?
}

limited "" true
if [ "$status" -ne 0 ]; then
	echo "left out, the administrator's limits: no mount namespace with another /etc"
else
	limited "counters-per-user = 1\n" "$waymark" stat -e page-faults -- true
	expect "as many counters as are allowed" "$status" 0
	limited "# all\ncounters-per-user = 1\n" \
		"$waymark" stat -e page-faults -e context-switches -- touch ran
	expect "more counters than are allowed" "$status" 1
	has="2 counters asked, user $(id -u) has 0"
	grep -q "$has, and counters-per-user = 1 in /etc/waymark/limits:2" err ||
		fail "more counters: $(cat err)"
	[ ! -e ran ] || fail "the command ran without its counters"
	kinds=(-e count:page-faults -e sample:cpu-clock -e fault)
	for allowed in 3 2; do
		limited "counters-per-user = $allowed\n" \
			"$waymark" record "${kinds[@]}" -o "kernel$allowed.trace" -- true
		expect "3 kernel events, $allowed counters" "$status" $((3 - allowed))
	done
	grep -q "3 counters asked, user $(id -u) has 0" err || fail "kernel events: $(cat err)"
	# one that a running session attaches to needs its own
	if ! is_sanitized libwaymark.so; then
		cc -I"$source_dir/include" "$source_dir/tests/targets/joiner.c" -o joiner \
			-L"$WAYMARK_BUILD" -lwaymark -Wl,-rpath,"$WAYMARK_BUILD" || fail "joiner"
		for _ in 1 2; do
			bash -c 'while :; do (sleep 0.002); done' &
			started+=($!)
		done
		for allowed in 2 1; do
			limited "counters-per-user = $allowed\n" ./joiner "${started[@]: -2}" fault
			words=([1]="refused: .*the administrator's limits" [2]="joined")
			grep -q "^${words[allowed]}" err ||
				fail "a process that joins, $allowed counters: $(cat err)"
		done
		kill -9 "${started[@]: -2}"
		wait "${started[@]: -2}" 2>/dev/null
	fi
	limited "counters = 1\n" env WAYMARK_LIMITS=/dev/null "$waymark" stat -e page-faults -- true
	expect "a bad line" "$status" 1
	grep -q "/etc/waymark/limits:1: no such key: counters" err || fail "a bad line: $(cat err)"
	LIMITS_MODE=666 limited "counters-per-user = 1\n" "$waymark" stat -e page-faults -- true
	expect "limits that everyone can write" "$status" 1
	grep -q "/etc/waymark/limits is no file of root's that root alone may write to" err ||
		fail "limits that everyone can write: $(cat err)"
	limited "buffer-bytes-per-session = 1M\n" \
		"$waymark" record -e 'marker:*:*' -o limited.trace -- true
	expect "a buffer that is too large" "$status" 1
	grep -q "33554432 bytes of buffer asked.*buffer-bytes-per-session = 1048576" err ||
		fail "a buffer that is too large: $(cat err)"
	limited "buffer-bytes-per-session = 1M\n" \
		"$waymark" record -e 'marker:*:*' --buffer 1M -o small.trace -- true
	grep -q "buffer-bytes-per-session" err && fail "a buffer that is allowed: $(cat err)"
fi

claims 1 -p 999999999
claims 2 -p nonsense
claims 2 too much
exit "$failed"
