#!/bin/bash
# SPDX-License-Identifier: MIT
# A running program whose threads block all signals: their writes are reported all the same, they see no difference, and at the end it
# is as it was.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cc -O1 -g "$source_dir/tests/targets/blocking.c" -o blocking -lpthread || exit 1

for i in 1 2; do
	rm -rf written over trace
	start timeout 60 ./blocking >said
	await_text said ready
	target=$(pgrep -P "$pid" -x blocking)
	"$waymark" record --for 30s --json -o trace -e watch:written -p "$target" >out 2>words &
	tool=$!
	await_armed "$target"
	touch written
	await_text said all
	kill -TERM "$tool"
	wait "$tool"
	touch over
	await_text said right
	expect "$i: hits, recorded, missed" "$(json hits) $(json recorded) $(json missed)" "125 125 0"
done
exit $failed
