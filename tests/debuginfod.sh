#!/bin/bash
# SPDX-License-Identifier: MIT
# Debug files from a server: fetched once, by commands that read alone, and only where
# DEBUGINFOD_URLS asks for it; a server that fails or is silent costs one try.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q 'libdebuginfod\.so\.1 ' || skip "no libdebuginfod"
command -v python3 >/dev/null || skip "no python3"
for name in switching burning; do
	cp "$WAYMARK_BUILD/tests/targets/$name" . || skip "not built"
	id=$(readelf -n "$name" | sed -n 's/.*Build ID: //p')
	[ -n "$id" ] || skip "built without a build id"
	readelf -S "$name" | grep -q '\.debug_info' || skip "built without -g"
	mkdir -p "www/buildid/$id"
	objcopy --only-keep-debug "$name" "www/buildid/$id/debuginfo"
	strip "$name"
done
export HOME=$folder XDG_CACHE_HOME=$folder/cache no_proxy=127.0.0.1

start python3 -u -m http.server -b 127.0.0.1 -d www 0 >log 2>&1
port() { sed -n 's/.* port \([0-9]*\) .*/\1/p' log; }
await_text log ' port [0-9]'
server=http://127.0.0.1:$(port)/

# lists STATUS URLS FILE
lists()
{
	timeout 60 env DEBUGINFOD_URLS="$2" "$waymark" list -e func:main "$3" >out 2>err
	expect "list $3 by '$2'" $? "$1"
}
# requests N WHAT
requests() { expect "requests: $2" "$(grep -c 'GET /buildid' log)" "$1"; }

lists 1 "" ./switching
requests 0 "nobody asked for a server"
timeout 60 env DEBUGINFOD_URLS="$server" "$waymark" record -o trace -e func:main ./switching 1 1 </dev/null >out 2>&1
requests 0 "record makes no program wait for a server"
lists 0 "$server" ./switching
grep -q 'main .*switching.c  *[0-9]' out || fail "no line in: $(cat out)"
lists 0 "$server" ./switching
requests 1 "the file is kept"

# One that takes connections and never answers, and says how many it took.
start python3 -u -c '
import socket
listener = socket.create_server(("127.0.0.1", 0))
print("at port", listener.getsockname()[1], "now")
kept = []
while True:
	kept.append(listener.accept())
	print("taken")
' >log
await_text log ' port [0-9]'
rm -r cache
timeout 100 env DEBUGINFOD_URLS="http://127.0.0.1:$(port)/" "$waymark" list -e func:main ./burning ./switching >out 2>err
expect "a silent server is no server" $? 1
grep -q 'is stripped' err || fail "not refused: $(cat err)"
expect "connections to a silent server" "$(grep -c taken log)" 1
exit $failed
