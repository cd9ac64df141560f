#!/bin/bash
# SPDX-License-Identifier: MIT
# Random types in C and C++, and random expressions: waymark and gdb find each at the same address,
# with the same size. WAYMARK_PLACES is how many.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

command -v gdb >/dev/null || skip "there is no gdb"
command -v g++ >/dev/null || skip "there is no g++"
python3 "$source_dir/tests/watch_places/compare.py" "$WAYMARK_BUILD/cli/waymark" \
	"${WAYMARK_PLACES:-300}"
status=$?
((status == 77)) && exit 77
expect "status of compare.py" $status 0
exit $failed
