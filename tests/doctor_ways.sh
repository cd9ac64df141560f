#!/bin/bash
# SPDX-License-Identifier: MIT
# What `waymark doctor -p` says of each way to record a process agrees with what `waymark record -p`
# then does, for processes that are restricted in some sixty ways.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

! is_sanitized inside/libwaymark-agent.so ||
	skip "an agent built for a sanitizer can't be loaded into programs that are not"
needs ptrace-user code-change breakpoint-write breakpoint-signal
build_target restricted.c
# a folder of their own, which a process may not see
mkdir lib
mv libwaymark-agent.so waymark lib
cp "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" lib || exit 1
chmod 755 . lib
export WAYMARK_AGENT=$folder/lib/libwaymark-agent.so WAYMARK_ENGINE=$folder/lib/libwaymark-trail.so
unset XDG_RUNTIME_DIR
timeout -k 5 400 python3 "$source_dir/tests/doctor/ways.py" "$folder/lib/waymark" \
	"$folder/restricted" || fail "see above"
exit $failed
