# SPDX-License-Identifier: MIT
# Completion of waymark(1) for bash.

# The options of a command, from its own help.
_waymark_options()
{
	waymark "$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' | grep -oE -- '-.*'
}

# SUBSYSTEM:EVENT of each marker in the processes or files given.
_waymark_markers()
{
	waymark list "$@" 2>/dev/null | grep -oE '^[A-Za-z_][A-Za-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*'
}

# func:NAME of the functions that begin so, usdt:PROVIDER:NAME; where what is traced is known.
_waymark_probes()
{
	local word=$1 kind=${1%%:*}
	shift
	[ $# -gt 0 ] || return
	case $kind in
	func) waymark list --func "${word#func:}*" "$@" 2>/dev/null |
		sed -n 's/^[^ #:]*:\([^ ]*\) .*/func:\1/p' ;;
	usdt) waymark list --usdt "$@" 2>/dev/null |
		sed -n 's/^\([^ #]*:[^ ]*\) .*/usdt:\1/p' ;;
	esac
}

# The pids of this user's processes.
_waymark_pids()
{
	ps -u "$(id -u)" -o pid= 2>/dev/null
}

# What is traced: "-p PID" or the program after "--", as `waymark list` takes it.
_waymark_target()
{
	local i
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-p) echo "-p ${COMP_WORDS[i + 1]}" && return ;;
		--) type -P -- "${COMP_WORDS[i + 1]}" && return ;;
		esac
	done
}

# what this machine can count
_waymark_events()
{
	waymark list --events 2>/dev/null | sed -n '/not here/d; s/^  \([^ ]*\).*/\1/p'
}

_waymark()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} target
	local commands="record list report dump trail watch stat top export diff compress coverage"
	commands+=" claims doctor help version"

	# A marker's name holds a colon, which readline takes for the end of a word.
	if declare -F _get_comp_words_by_ref >/dev/null; then
		_get_comp_words_by_ref -n : cur prev
		# shellcheck disable=SC2154 # set by the line above
		word=$cur before=$prev
	fi

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
		return
	fi
	case $command:$before in
	help:*)
		mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
	*:-p | *:--pid)
		mapfile -t COMPREPLY < <(compgen -W "$(_waymark_pids)" -- "$word") ;;
	record:--on)
		mapfile -t COMPREPLY < <(compgen -W "crash exit signal signal: marker:" -- "$word")
		declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$word" ;;
	record:--policy)
		mapfile -t COMPREPLY < <(compgen -W "discard cyclic block notify" -- "$word") ;;
	record:-e | record:--event | top:-e | top:--event)
		target=$(_waymark_target)
		if [[ $word =~ ^(func|usdt|addr):.*/([^/]*,)?[a-z0-9]*$ ]]; then
			mapfile -t COMPREPLY < <(compgen -P "${word%"${word##*[/,]}"}" \
				-W "args ret safe" -- "${word##*[/,]}")
			declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$word"
			return
		fi
		if [[ $word =~ ^trail/([^/]*,)?[a-z0-9=]*$ ]]; then
			mapfile -t COMPREPLY < <(compgen -P "${word%"${word##*[/,]}"}" \
				-W "auto/ soft/ step/ only=main/ pt/ bts/ last=64M/ kernel/" -- "${word##*[/,]}")
			return
		fi
		if [[ $word == tr* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "trail/" -- "$word")
			return
		fi
		if [[ $word == func:* || $word == usdt:* ]]; then
			# shellcheck disable=SC2086 # "-p PID" is two words
			mapfile -t COMPREPLY < <(compgen -W "$(_waymark_probes "$word" $target)" -- "$word")
			declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$word"
			return
		fi
		# shellcheck disable=SC2086 # "-p PID" is two words
		mapfile -t COMPREPLY < <(compgen -P marker: -W "$(_waymark_markers $target)" \
			-- "${word#marker:}")
		declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$word" ;;
	stat:-e | stat:--event)
		mapfile -t COMPREPLY < <(compgen -P "${word%"${word##*[,\{]}"}" -W "$(_waymark_events)" -- "${word##*[,\{]}") ;;
	export:--format)
		mapfile -t COMPREPLY < <(compgen -W "folded perf-script perfetto speedscope" -- "$word") ;;
	export:--weight)
		mapfile -t COMPREPLY < <(compgen -W "instructions blocks period samples" -- "$word") ;;
	export:-o | export:--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	top:-o | top:--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	record:-o | report:* | dump:* | trail:* | export:* | diff:* | compress:* | coverage:*)
		mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	list:*)
		mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_waymark_options "$command")" -- "$word")
	fi
}

complete -o bashdefault -o default -F _waymark waymark
