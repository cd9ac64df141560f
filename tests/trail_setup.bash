# SPDX-License-Identifier: MIT
# Shared by the tests that record trails of tests/targets/trailed.c: that program, and what must hold for each tracer.
# shellcheck shell=bash
# shellcheck source=tests/record_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/record_setup.bash"

build_target trailed.c -ffreestanding -fno-stack-protector -nostdlib -static -no-pie

# trail NAME: the trails in that folder must be whole; their events are in ./shown
trail()
{
	timeout 60 "$waymark" trail "$1" >shown 2>trail_words || fail "trail $1: $(cat trail_words)"
	timeout 60 "$waymark" dump "$1" >shown 2>trail_words || fail "dump $1: $(cat trail_words)"
}

# How it ends, and with which arguments: an exit status, a signal's; handlers and timers; children by vfork and by fork;
# another program in place.
# shellcheck disable=SC2034 # used where this is read
endings=("7:l 50" "8:t 3" "5:n 3" "11:v" "11:f" "7:x ./trailed l 20" "12:i 0" "13:b 0" "138:k 10" "139:k 11" "143:k 15")

# ends ENDING WORDS OPTION...: recorded with these into ./ran it ends so, the recorder says WORDS, and its trail has the end
ends()
{
	local mode=${1#*:} status=${1%%:*} words=$2
	shift 2
	rm -rf ran
	# shellcheck disable=SC2086 # several words
	run "$status" --json "$@" -o ran -- ./trailed $mode
	says "$words"
	trail ran
	grep -q trail:end shown || fail "$mode: its trail has no end"
	[ "$(json blocks)" -gt 0 ] || fail "$mode: no blocks"
}

# keeps_streams OPTION...: with standard streams closed no file of Waymark's takes their numbers, and what is said does not go into
# it: who repairs the trace should we be killed would take a word for our end. The program has them closed too.
keeps_streams()
{
	local closed
	for closed in "23:" "22:0<&-" "21:0<&- 1>&-" "21:1>&- 2>&-" "20:0<&- 1>&- 2>&-"; do
		rm -rf closed
		eval 'timeout 60 "$waymark" record -v "$@" -o closed -- ./trailed o 1 </dev/null >out 2>words' "${closed#*:}"
		expect "standard streams: ${closed#*:}" $? "${closed%%:*}"
		trail closed
	done
}
