# SPDX-License-Identifier: MIT
# Comes before a test's other setup: a new machine has no tracefs mounted. For root, the test starts
# again in a mount namespace of its own, with tracefs.
# shellcheck shell=bash

# has_tracefs: else the test leaves a part out, and says so
has_tracefs()
{
	[ "$(id -u)" -eq 0 ] && [ -r /sys/kernel/tracing/events ]
}

if [ "$(id -u)" -eq 0 ] && ! has_tracefs && [ -z "${WAYMARK_TEST_TRACEFS:-}" ] &&
	unshare -m mount -t tracefs none /sys/kernel/tracing 2>/dev/null; then
	export WAYMARK_TEST_TRACEFS=mounted
	exec unshare -m --propagation private sh -c \
		'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh "$0" "$@"
fi
