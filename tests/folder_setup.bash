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
