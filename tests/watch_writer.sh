#!/bin/bash
# SPDX-License-Identifier: MIT
# Who wrote may be in a library that was there before watching began: it is named as the program's own functions are, live and in the trace.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

build_target watch/uses.c -DLIBRARY -shared -fPIC -o libhelper.so
build_target watch/uses.c -L. -lhelper -Wl,-rpath,"$folder"
chmod 755 .

# named WHAT TIMES: the table in ./out has so many lines of that writer
named() { expect "$1" "$(grep -c '  helper_write (uses.c:[0-9]*)  *[78]$' out)" "$2"; }

# once FOLDER: the trace has each module once, the library among them
once()
{
	command -v babeltrace2 >/dev/null || return 0
	babeltrace2 "$1" | grep 'waymark:module: .* process = 0, gone = ( "false"' >modules
	expect "$1: the library" "$(grep -c '/libhelper.so" }$' modules)" 1
	expect "$1: twice" "$(sed 's/.* base = //' modules | sort | uniq -d)" ""
}

timeout -k 5 60 "$waymark" watch -t target ./uses >out 2>words || fail "launched: $(cat words)"
named "launched, and its child" 2
watches launched 0 -e watch:target -- ./uses
once launched

start ./uses on
await_running "$pid"
timeout -k 5 60 "$waymark" watch -t target --for 300ms -p "$pid" >out 2>words || fail "attached: $(cat words)"
named attached 1
watches attached 0 -e watch:target --for 300ms -p "$pid"
once attached
watches outside 0 -e watch:target/outside/ --for 300ms -p "$pid"
once outside
exit $failed
