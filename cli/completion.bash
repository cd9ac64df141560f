# SPDX-License-Identifier: MIT
# Completion of waymark(1) for bash: `waymark complete` knows what there is.
_waymark()
{
	local line=${COMP_LINE:0:COMP_POINT} word before
	local -a words
	read -ra words <<<"$line"
	[[ $line == *' ' ]] && words+=("")
	word=${words[-1]}
	# readline takes ':' and '=' for the end of a word
	before=${word%"${word##*["${COMP_WORDBREAKS//[^:=]/}"]}"}
	# a program's names go into the command line as they are: none that the shell would expand
	mapfile -t COMPREPLY < <(waymark complete "${words[@]:1}" 2>/dev/null | grep -x '[[:alnum:]_.:/=,{+@%~-]*')
	[[ ${COMPREPLY[*]} == *[:/=]* ]] && compopt -o nospace 2>/dev/null
	COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o bashdefault -o default -F _waymark waymark
