#!/bin/bash
# SPDX-License-Identifier: MIT
# The command's front: help, version, unknown words, exit statuses.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark

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

# The kinds and options of specs, from the table that reads them.
expect 0 out "sample:NAME" help spec
expect 0 out "freq=N: so many a second" help spec
expect 0 out "**only=NAME**: only code of these modules" help spec --manual

# completes EXPECTED WORD...: what completion offers for the last word
completes()
{
	local expected=$1 got
	shift
	got=$("$waymark" complete "$@" | tr '\n' ' ')
	if [ "$got" != "$expected" ]; then
		echo "complete $*: $got, expected $expected"
		failed=1
	fi
}

completes "record report " re
completes "dump " help du
completes "--policy " record --pol
completes "" version ""
completes "cyclic " record --policy c
completes "switch sample: " record -e s
completes "watch: " record -e w
completes "trail/soft,last= " record -e trail/soft,la
completes "sample:cpu-clock/callchain,precise " top -e sample:cpu-clock/callchain,pr
completes "func:main/name= " record -e func:main/n
completes "func:main/args func:main/avg= " record -e func:main/a
completes "watch:x:rw/count " record -e watch:x:rw/cou
completes "sample:page-faults " record -e sample:page-fa
completes "{cycles,task-clock " stat -e "{cycles,task"
completes "$BASHPID " watch -p $BASHPID

# A full disk is a failure. A closed pipe is not.
if [ -w /dev/full ]; then
	for words in help version "help spec" "help --tables" "record --help" claims "list --events"; do
		# shellcheck disable=SC2086 # words
		if said=$("$waymark" $words 2>&1 >/dev/full) || [[ $said != *"No space left on device: standard output"* ]]; then
			echo "waymark $words: a full disk is not noticed: $said"
			failed=1
		fi
	done
fi
for words in "help --tables" claims "list --events" "stat -j true" "stat -I 10ms -j sleep 0.1"; do
	# shellcheck disable=SC2086 # words
	said=$({ (trap '' PIPE; "$waymark" $words; echo "status $?" >&2) | :; } 2>&1)
	if [ "$said" != "status 0" ]; then
		echo "waymark $words, into a closed pipe: $said"
		failed=1
	fi
done

# Each command reads numbers, sizes, times and signals alike. A program that is not there, or a trace,
# is missed only after its options were read. Watches are refused before that where no breakpoint fires.
! no_watches=$(lacks breakpoint-write) || echo "left out, options of watches: $no_watches"
for for in 10 10s 10sec 1.5SECONDS 500ms 7usec 2m 2min 1h; do
	expect 1 err "No such file" record --for $for ./nothere
	[ -n "$no_watches" ] || expect 1 err "No such file" watch --for $for count ./nothere
done
for size in 1048576 64M 64MB 64MiB 64mib 0.5G; do
	expect 1 err "No such file" record --buffer $size -e trail/last=$size/ ./nothere
done
for signal in USR1 usr1 SIGUSR1 sigusr1 10 0xa RTMIN sigrtmin+1 SIGRTMIN+30; do
	expect 1 err "No such file" record -e trail/last=1M/ --on signal:$signal ./nothere
	[ -n "$no_watches" ] || expect 1 err "No such file" record -e watch:x/signal=$signal/ ./nothere
done
for bad in "" 10x 10xs -1 +1 " 1" "1 " 1e3 999999999999h; do
	for command in record stat top watch; do
		expect 2 err "waymark $command: --for takes seconds, or a number with ns, us, ms, s, min, h or d, not $bad" \
			$command --for "$bad"
	done
	expect 2 err "waymark dump: --from takes seconds, or a number with" dump --from "$bad" x
	expect 2 err "waymark record: --buffer takes a size, such as 64M or 1.5GiB, not $bad" record --buffer "$bad"
	expect 1 err "(column 7) ${bad:+takes a size from 64K to 64G}" record -e "trail/last=$bad/" ./nothere
done
for bad in "" 0 x 12x -1 +1 " 1" 2147483648; do
	for command in dump trail report export coverage; do
		expect 2 err "waymark $command: --tid takes a number from 1 to 2147483647, not $bad" $command --tid "$bad" x
	done
	for command in record list top stat watch; do
		expect 2 err "waymark $command: --pid takes numbers, such as 12 or 12,34, not $bad" $command --pid "$bad"
	done
done
for bad in "" SEGW 65 0 RTMIN+31 RTMIN+ "SEGV "; do
	expect 2 err "waymark record: --on signal:NAME takes a signal, such as SEGV, RTMIN+1 or 11, not $bad" \
		record -e trail/last=1M/ --on "signal:$bad" ./nothere
done
expect 2 err "waymark top: --interval takes seconds, or a number with ns, us, ms, s, min, h or d, at least 50ms, not 49ms" \
	top --interval 49ms

# The manual lists the same options as the help.
options()
{
	grep -oE -- '--[a-z][a-z-]+' | sort -u
}
for command in record list report dump trail export diff compress coverage claims top doctor; do
	page=$source_dir/docs/man/waymark-$command.1.md
	if ! diff <("$waymark" $command --help | options) <(grep '^\*\*-' "$page" | options); then
		echo "waymark $command: the help (<) and the manual page (>) differ"
		failed=1
	fi
done
exit $failed
