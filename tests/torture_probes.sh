#!/bin/bash
# SPDX-License-Identifier: MIT
# Every function of libc, of libz and of a program armed and disarmed while it works, with signals, jumps,
# exceptions, forks, spawned programs, dlopen and dlclose, for WAYMARK_TORTURE_SECONDS (30). No crash, no
# hang, no other result, every byte restored, and every event is accounted for.
set -u
seconds=${WAYMARK_TORTURE_SECONDS:-30} # each way of the driver once
folder=$WAYMARK_BUILD/tests/torture_probes
export WAYMARK_AGENT=$WAYMARK_BUILD/inside/libwaymark-agent.so
if [ "$(nm -D "$WAYMARK_AGENT" | grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]; then
	echo "an agent built for a sanitizer can't be loaded into programs that are not"
	exit 77
fi
exec timeout -k 5 $((seconds + 90)) "$folder/torture_probes_driver" "$seconds" \
	"$folder/torture_probes_victim" "$folder/libtorture_probes_plugin.so"
