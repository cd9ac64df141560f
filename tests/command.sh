#!/bin/bash
# SPDX-License-Identifier: MIT
# The command's front: help, version, unknown words, exit statuses.
set -uo pipefail

waymark=$WAYMARK_BUILD/cli/waymark
failed=0

# expect STATUS STREAM TEXT [ARGUMENT]...: that status, and TEXT on that stream
expect()
{
	local status=$1 stream=$2 text=$3 output got
	shift 3
	if [ "$stream" = out ]; then
		output=$("$waymark" "$@" 2>/dev/null)
	else
		output=$("$waymark" "$@" 2>&1 >/dev/null)
	fi
	got=$?
	if [ $got -ne "$status" ] || [[ $output != *"$text"* ]]; then
		printf 'waymark %s: status %d, expected %d with "%s" on std%s:\n%s\n' \
			"$*" $got "$status" "$text" "$stream" "$output"
		failed=1
	fi
}

expect 0 out "Usage: waymark COMMAND" help
expect 0 out "Usage: waymark COMMAND" --help
expect 0 out "waymark 0." --version
expect 0 out "waymark 0." version
expect 2 err "Usage: waymark COMMAND"
expect 2 err "there is no command recrod" recrod
expect 2 err "did you mean record?" recrod
expect 2 err "did you mean record or report?" re
expect 2 err "there is no command xyzzy" xyzzy
expect 2 err 'there is no command \x1b[2J' $'\e[2J'
expect 2 err "did you mean dump?" help dmup
for command in record list report dump trail export diff compress coverage claims top doctor; do
	expect 0 out "Usage: waymark $command" $command --help
	expect 0 out "Usage: waymark $command" help $command
	expect 2 err "waymark $command --help" $command --no-such-option
done

# The manual lists the same options as the help.
options()
{
	grep -oE -- '--[a-z][a-z-]+' | sort -u
}
for command in record list report dump trail export diff compress coverage claims top doctor; do
	page=$(dirname "$0")/../docs/man/waymark-$command.1.md
	if ! diff <("$waymark" $command --help | options) <(grep '^\*\*-' "$page" | options); then
		echo "waymark $command: the help (<) and the manual page (>) differ"
		failed=1
	fi
done
exit $failed
