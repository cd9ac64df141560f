#!/bin/bash
# SPDX-License-Identifier: MIT
# A tool that stops the threads of a program for a moment, as ours do, is its tracer for that time: watches outlast it.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

build_target watch/seizes.c
build_target watch/ticks.c
start ./ticks >ready
timeout 60 "$waymark" record --json -o t -e watch:one --for 4s -p "$pid" >out 2>words &
recorder=$!
await_armed "$pid"
timeout 30 ./seizes "$pid" || fail "the tracer failed"
wait $recorder || fail "record: $(cat words)"
expect "taken away" "$(grep -o '"lost":[^,}]*' out)" '"lost":null'
exit $failed
