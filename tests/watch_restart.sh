#!/bin/bash
# SPDX-License-Identifier: MIT
# A session without a folder may be started again: its watches report each time what was stored, from inside and from outside.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

! is_sanitized libwaymark.so ||
	skip "a library built for a sanitizer can't be linked by programs that are not"
cp -L "$WAYMARK_BUILD/libwaymark.so" libwaymark.so.0 || exit 1
cc -O1 -g -Wall -Wextra -Werror -I"$source_dir/include" "$source_dir/tests/watch_restart.c" -o restarts \
	./libwaymark.so.0 -Wl,-rpath,"$folder" || exit 1
for how in '' /outside/; do
	timeout 60 ./restarts "$how" >said 2>&1 || fail "${how:-inside}: status $?: $(head -5 said)"
done
exit $failed
