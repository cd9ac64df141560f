#!/bin/bash
# SPDX-License-Identifier: MIT
# A thousand markers, armed and disarmed under four threads, signals, forks, dlopen and dlclose, for
# WAYMARK_TORTURE_SECONDS (60). No crash, no hang, and every event is accounted for.
set -u
seconds=${WAYMARK_TORTURE_SECONDS:-60}
folder=$WAYMARK_BUILD/tests/torture
export WAYMARK_AGENT=$WAYMARK_BUILD/inside/libwaymark-agent.so
if [ "$(nm -D "$WAYMARK_AGENT" | grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]; then
	echo "an agent built for a sanitizer can't be loaded into programs that are not"
	exit 77
fi
exec timeout -k 5 $((seconds + 90)) "$folder/torture_driver" "$seconds" "$folder/torture_victim" \
	"$folder/libtorture_plugin.so"
