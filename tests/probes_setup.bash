# SPDX-License-Identifier: MIT
# Shared by the tests of probes: programs that know nothing of Waymark, and what a trace must say of them.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
# One layout of memory, where that may be had: it decides which addresses a jump can lead to.
[ -n "${WAYMARK_ONE_LAYOUT-}" ] || ! setarch -R true 2>/dev/null ||
	WAYMARK_ONE_LAYOUT=1 exec setarch -R bash "$0" "$@"
# shellcheck source=tests/record_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/record_setup.bash"

probes_dir=$source_dir/tests/probes
has_sdt=
echo '#include <sys/sdt.h>' | cc -E -x c - >/dev/null 2>&1 && has_sdt=-DHAVE_SDT
cc -O2 -g $has_sdt "$probes_dir/probed.c" -o probed -lpthread &&
	cc -O2 "$probes_dir/loads.c" -o loads -ldl &&
	cc -O2 -g "$probes_dir/prefork.c" -o prefork &&
	cc -O2 "$probes_dir/forks.c" -o forks &&
	cc -O2 "$probes_dir/shut.c" -o shut &&
	cc -O2 -fPIC -shared "$probes_dir/library.c" -o libprobed.so || exit 1

# launched NAME SPEC PROGRAM...: recorded into NAME, nothing lost
launched()
{
	local name=$1 spec=$2
	shift 2
	run 0 --json -o "$name" -e "$spec" -- "$@"
	expect "$name: discarded" "$(json discarded)" 0
	expect "$name: events in the trace" "$(events_in "$name")" "$(json recorded)"
}

# count TRACE NAME: events of that name
count()
{
	"$waymark" dump --event "$2" "$1" | grep -vc 'events lost'
}

# values TRACE NAME FIELD: the field's value in each event of that name, in order of time
values()
{
	of_events "$@"
}

# whole TRACE NAME FIELD: the field of those events is one unbroken run of integers; says how many
whole()
{
	values "$1" "$2" "$3" | awk 'NR > 1 && $1 != last + 1 { bad = 1 } { last = $1 }
		END { if (bad || !NR) exit 1; print NR }'
}

# same_bytes PID MODULE WHAT: the text of that module in memory is that of its file
same_bytes()
{
	has_same_bytes "$1" "$2" || fail "$3: bytes of $changed in process $1 are not restored"
}

# await_same_bytes PID MODULE WHAT: until it is
await_same_bytes()
{
	await has_same_bytes "$1" "$2" || same_bytes "$@"
}

# has_same_bytes PID MODULE: else the file that differs is in $changed
has_same_bytes()
{
	local range offset start end
	while read -r range _ offset _ _ changed; do
		start=$((16#${range%-*})) end=$((16#${range#*-}))
		cmp -s <(dd if=/proc/"$1"/mem bs=4096 skip=$((start / 4096)) \
			count=$(((end - start) / 4096)) 2>/dev/null) \
			<(dd if="$changed" bs=4096 skip=$((16#$offset / 4096)) \
				count=$(((end - start) / 4096)) 2>/dev/null) ||
			[ "$(cmp <(dd if=/proc/"$1"/mem bs=4096 skip=$((start / 4096)) \
				count=$(((end - start) / 4096)) 2>/dev/null) "$changed" \
				-i 0:$((16#$offset)) 2>&1 | grep -vc EOF)" -eq 0 ] ||
			return 1
	done < <(grep ' r-xp .*'"$2" /proc/"$1"/maps)
}
