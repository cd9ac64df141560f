#!/bin/bash
# SPDX-License-Identifier: MIT
# Processes of different rights are recorded along: none can harm another by what the recorder
# shares with it, and a program that gains rights runs natively. By root alone: no one else records
# processes of others.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
[ "$(id -u)" = 0 ] || skip "only root records processes of several users"
chmod 755 .
cp "$WAYMARK_BUILD/tests/targets/engine/engine-escalate" escalate
cp /bin/cat setuid
chmod 4755 setuid
cp /bin/cat capable
./escalate capability "$PWD/capable" || skip "the file system takes no file capabilities"
[ "$(setpriv --reuid 65534 ./setuid /proc/self/status | awk '/^Uid/ { print $3 }')" = 0 ] ||
	skip "the file system takes no set-user-ID programs"

# A worker that has dropped root's rights, and its parent, which makes more processes.
timeout -k 5 100 "$waymark" record --json -e trail/soft/ -o daemon -- ./escalate worker 60 >out 2>words
expect "the daemon" $? 0
expect "the daemon's children" "$(head -1 out)" "0 harmed, 0 shared, 1 of its own"
expect "its children are all recorded" "$(json unfollowed)" 0
timeout 60 "$waymark" trail -n 1 daemon 2>&1 | grep -c '(process ' >count
expect "its processes" "$(cat count)" 122

# Programs that gain rights, by their mode and by capabilities of their file.
gains()
{
	local event=$1 file=$2 words_wanted=$3
	rm -rf gains
	timeout -k 5 100 "$waymark" record -e "$event" -o gains -- ./escalate program 20 "$PWD/$file" >out 2>words
	expect "$event, $file" $? 0
	expect "$event, $file" "$(tail -1 out)" "0 harmed"
	grep -e waymark-trail -e waymark-control -e waymark-store -e libwaymark out &&
		fail "$event, $file: something of the recorder's is in a program that gains rights"
	grep -q "$words_wanted" words || fail "$event, $file: $(cat words)"
}
for file in setuid capable; do
	gains trail/soft/ "$file" '^waymark: 20 processes executed a program that gains rights'
	# a recorder of markers looks for programs without an agent at intervals, and may miss short
	# ones
	gains 'marker:escalate:*' "$file" 'recorded 1 event'
done

# Markers of a daemon and of its worker, also where the recorder does not answer, or libc did not
# make the worker: they share no store.
mkfifo input
for kind in wait stopped bare; do
	rm -rf markers out
	"$waymark" record -e 'marker:escalate:*' -o markers -- ./escalate worker 2 "$kind" <input >out 2>words &
	recorder=$!
	exec 7>input
	await_event markers escalate:passed
	[ "$kind" != stopped ] || kill -STOP "$recorder"
	echo >&7
	await -s 60 grep -q harmed out
	kill -CONT "$recorder"
	exec 7>&-
	wait "$recorder" || fail "markers: $(cat words)"
	grep -q '^0 harmed, 0 shared' out || fail "markers, $kind: $(cat out)"
	[ "$kind" != stopped ] || grep -q 'ran unrecorded at first' words ||
		fail "children that began unrecorded are not counted: $(cat words)"
done

# By itself, as the recorded program: root's, of another user's mode.
cp /bin/cat other
chown 65534 other
chmod 4755 other
timeout -k 5 100 "$waymark" record -e trail/soft/ -o own -- ./other /proc/self/maps >out 2>words &&
	fail "a program that gains rights was recorded"
grep -q 'setuid, setgid' words || fail "a program that gains rights: $(cat words)"
[ ! -s out ] || fail "a program that gains rights ran: $(head -3 out)"

# Where nothing can be seen of a program, that is the reason.
start sleep 1000 # longer than the test
sleeper=$pid
for what in "soft -- /bin/true" "step -- /bin/true" "soft -p $sleeper" "step -p $sleeper"; do
	# shellcheck disable=SC2016,SC2086 # expanded inside; words
	unshare -m sh -c 'umount -l /proc && exec "$@"' sh timeout -k 5 60 "$waymark" record \
		-e "trail/${what%% *}/" -o unseen ${what#* } >out 2>words && fail "no /proc: $what: recorded"
	grep -q 'no /proc can be read' words || fail "no /proc: $what: $(cat words)"
done
kill "$sleeper"
exit "$failed"
