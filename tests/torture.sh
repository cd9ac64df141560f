#!/bin/bash
# SPDX-License-Identifier: MIT
# A thousand markers, armed and disarmed under four threads, signals, forks, dlopen and dlclose, for
# WAYMARK_TORTURE_SECONDS (20). No crash, no hang, and every event is accounted for.
set -u
seconds=${WAYMARK_TORTURE_SECONDS:-20}
folder=$WAYMARK_BUILD/tests/torture
export WAYMARK_AGENT=$WAYMARK_BUILD/agent/libwaymark-agent.so
exec timeout -k 5 $((seconds + 90)) "$folder/torture_driver" "$seconds" "$folder/torture_victim" \
	"$folder/libtorture_plugin.so"
