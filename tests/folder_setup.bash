# SPDX-License-Identifier: MIT
# Shared by the tests of whole programs: a folder of the test's own, where it runs, and how it tells what is wrong.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/waymark-test-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

# skip WHY: the test can't run here
skip()
{
	echo "$*"
	exit 77
}

# needs TRIAL...: skip the test, with the trial's reason, on a machine where one of these does not work (session/trial/trial.def)
needs()
{
	local words
	words=$("$WAYMARK_BUILD/cli/waymark" doctor "$@") || skip "$(sed -n '/^works/d; s/^[a-z]* *//p' <<<"$words" | head -n 1)"
}

# fail WHAT: the test goes on; it ends with `exit $failed`
fail()
{
	echo "FAILED: $*"
	failed=1
}

# expect WHAT GOT WANTED
expect()
{
	[ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# executed PID: until it is a program, and no more the copy of this shell that bash forks for it; bounded
executed()
{
	for _ in $(seq 400); do
		[ "/proc/$1/exe" -ef "/proc/$BASHPID/exe" ] || return 0
		sleep 0.01
	done
}
