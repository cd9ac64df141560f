#!/bin/bash
# SPDX-License-Identifier: MIT
# A kernel event that was taken and had no register for a while counts nothing then: that is reported, as no count shows it. No kernel
# is known to do so to order, so what it says of one event's time is bent on the way.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

build_target watch/starved.c -shared -fPIC -o bent.so

# bent COMMAND...: with the kernel's words bent, for the command and not for what it starts
bent()
{
	# a tool built for a sanitizer wants to be asked
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 LD_PRELOAD=$folder/bent.so timeout 60 "$waymark" "$@"
}

./watched turn 100 8 >/dev/null # warm
"$waymark" watch --json -e in_turn -- ./watched turn 100 8 >straight 2>words || fail "$(cat words)"
expect "starved, as it is" "$(grep -o "\"starved\":[0-9]*" straight)" '"starved":0'
bent watch --json -e in_turn -- ./watched turn 100 8 >out 2>words || fail "watch: $(cat words)"
expect "starved" "$(grep -o "\"starved\":[0-9]*" out)" '"starved":1'
bent watch -e in_turn -- ./watched turn 100 8 >out 2>words || fail "watch: $(cat words)"
grep -q "watch:in_turn: 800 hits; 1 kernel event had no debug register for some time: hits may be missing" words ||
	fail "watch: $(cat words)"
bent record -o into -e watch:in_turn -- ./watched turn 100 8 >out 2>words || fail "record: $(cat words)"
grep -q "watch:in_turn: 800 hits; 1 kernel event had no debug register for some time: hits may be missing" words ||
	fail "record: $(cat words)"
rm -rf into
bent record --json -o into -e watch:in_turn -- ./watched turn 100 8 >out 2>words || fail "record: $(cat words)"
grep -q '"starved":1' out || fail "record --json: $(cat out)"
exit $failed
