# SPDX-License-Identifier: MIT
# Shared by the tests that record ./filtered twice: whole, and as a spec asks; and compare.
# shellcheck shell=bash
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/record_setup.bash"

command -v python3 >/dev/null || skip "no python3"
build_target filtered.c
cc -O2 -fPIC -shared -I"$source_dir/include" "$source_dir/tests/targets/filtered_late.c" -o late.so ||
	exit 1

# recorded NAME WAY SPEC...: what the program does in that way, into ./NAME; its events, one a line,
# into NAME.events
recorded()
{
	local name=$1 way=$2 status=0 specs=() spec
	shift 2
	for spec; do specs+=(-e "$spec"); done
	[ "$way" != kill ] || status=137
	rm -rf "$name"
	run $status --json --buffer 64M -o "$name" "${specs[@]}" -- ./filtered "$way" ./late.so
	expect "$name, $way: discarded" "$(json discarded)" 0
	"$waymark" dump --json "$name" >"$name.events" || fail "$name, $way: dump"
}
