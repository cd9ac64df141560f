#!/bin/bash
# SPDX-License-Identifier: MIT
# WAYMARK_DEBUG=FILE: the agent and the engine write what they do, a line for each message, and the program notices nothing.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
both=(-e trail/soft/ -e marker:ticker:tick)
line='^[0-9]+\.[0-9]{9} [0-9]+ [0-9]+ (agent|engine)/[a-z]+: [[:print:]]+$'

# has_part FILE PART TEXT: such a message is there
has_part()
{
	grep -qE " $2: .*$3" "$1" || fail "$1 has no message of $2 with '$3': $(head -n 3 "$1")"
}

# is_whole FILE: all that is in it are lines
is_whole()
{
	grep -vE "$line" "$1" >other && fail "$1 has other lines: $(head -n 3 other)"
	[ "$(tail -c 1 "$1" | wc -l)" = 1 ] || fail "$1 ends within a line"
}

# Both sides, in several processes and threads at once.
export WAYMARK_DEBUG=$folder/lines
run 0 "${both[@]}" -o ran -- sh -c './ticker 100 4 & ./ticker 100 4 & (:) ; wait'
is_whole lines
expect "the file's mode" "$(stat -c %a lines)" 600
for part in start session control report batch fork; do
	has_part lines agent/$part ""
done
has_part lines agent/session "request 33, serial .* bytes"
has_part lines agent/batch "arm 1: .* error 0"
for part in start thread code process; do
	has_part lines engine/$part ""
done
has_part lines engine/thread "ends by call 231, status 0"
[ "$(awk '{ print $2 }' lines | sort -u | wc -l)" -ge 4 ] || fail "lines of few processes: $(awk '{ print $2 }' lines | sort | uniq -c)"

# Attached: the environment is the program's. The recorder's own means nothing.
attaches()
{
	start "$@"
	await_running "$pid"
	rm -rf ran
	run 0 --for 100ms -e trail/soft/ -o ran -p "$pid"
	kill "$pid"
}
WAYMARK_DEBUG=$folder/attached
attaches ./ticker 100 2 1000000
is_whole attached
has_part attached engine/attach "taken at .* error 0"
has_part attached engine/leave "all threads have left"

# silent WHAT FILE: nothing was written there
silent()
{
	[ ! -s "$2" ] || fail "$1: $(head -n 3 "$2")"
}

# Off: no file, and at no time a descriptor more.
# shellcheck disable=SC2016 # for that shell
look='cd /proc/self/fd && echo *'
unset WAYMARK_DEBUG
run 0 -e trail/soft/ -e func:dup2 -o off -- sh -c "$look"
cp out off.descriptors
export WAYMARK_DEBUG=$folder/on
run 0 -e trail/soft/ -e func:dup2 -o on.trace -- sh -c "$look"
expect "descriptors" "$(cat out)" "$(cat off.descriptors)"
[ -s on ] || fail "nothing was written"

# Files that can't be: the program runs, and nothing is written.
: >aim
ln -s aim link
mkfifo pipe
mkdir map
for WAYMARK_DEBUG in relative "$folder/link" "$folder/pipe" "$folder/map" "$folder/none/such" "" "/$(printf '%0300d' 0)"; do
	rm -rf ran
	run 0 "${both[@]}" -o ran -- ./ticker 10
done
silent "a relative path" relative
silent "a symbolic link" aim

# A limit on the size of files would kill the program for a line: SIGXFSZ.
WAYMARK_DEBUG=$folder/limited
rm -rf ran
run 0 -e trail/soft/ -o ran -- sh -c 'ulimit -f 0 && exec ./ticker 10'
is_whole limited
expect "programs with such a limit that wrote" "$(grep -c 'begins at' limited)" 1

# A filter of the program's kills it for what the trace does: it does nothing.
WAYMARK_DEBUG=$folder/filtered
build_target unappending.c
if (unset WAYMARK_DEBUG && ./unappending >alone); then
	for event in trail/soft/ func:main; do
		rm -rf ran filtered
		run 0 -e $event -o ran -- ./unappending
		grep -q right out || fail "filtered, $event: $(cat out words)"
		is_whole filtered
	done
	has_part filtered agent/session "hello sent"
else
	echo "no seccomp filters here: filtered programs were not tested"
fi

# A program that has gained privileges ignores the variable, also where root attaches.
WAYMARK_DEBUG=$folder/gained
chmod 755 .
cp /bin/sleep setuid && chmod 4755 setuid
if [ "$(id -u)" = 0 ] && cp /bin/cat reads && chmod 4755 reads &&
	[ "$(setpriv --reuid 65534 ./reads /proc/self/status | awk '/^Uid/ { print $3 }')" = 0 ]; then
	attaches setpriv --reuid 65534 ./setuid 60
	silent "a program with privileges" gained
	chmod 755 setuid
	attaches ./setuid 60
	is_whole gained
	has_part gained engine/start ""
else
	echo "no set-user-ID programs here: privileged programs were not tested"
fi
exit $failed
