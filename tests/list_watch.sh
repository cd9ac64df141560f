#!/bin/bash
# SPDX-License-Identifier: MIT
# What list --watch shows: of a file, of a process by its own word, and why something can't be watched.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark
command -v gcc >/dev/null || skip "there is no gcc"
samples=$source_dir/target/expression/testing

# shows WHAT EXPECTED ARGUMENT...: the line of it
shows()
{
	local what=$1 expected=$2 output
	shift 2
	output=$("$waymark" list "$@" 2>&1 | tr -s ' ')
	[[ $output == *"$expected"* ]] || fail "$what: no \"$expected\" in: $output"
}

# refuses STATUS EXPECTED ARGUMENT...
refuses()
{
	local status=$1 expected=$2 output got
	shift 2
	output=$("$waymark" list "$@" 2>&1 >/dev/null)
	got=$?
	expect "status of list $*" $got "$status"
	[[ $output == *"$expected"* ]] || fail "list $*: no \"$expected\" in: $output"
}

gcc -g -I "$source_dir" -no-pie -o whole "$samples/sample_watch.c" "$samples/sample_watch_twin.c" || skip "gcc makes nothing of the sample"
gcc -g -I "$source_dir" -D_GNU_SOURCE -shared -fPIC -o libwatched.so "$samples/sample_watch_library.c"
# shellcheck disable=SC2016 # it is for the loader
gcc -g -I "$source_dir" -D_GNU_SOURCE -o live "$samples/sample_watch_live.c" -L. -lwatched -Wl,-rpath,'$ORIGIN'

address=$(nm whole | awk '$3 == "counter" { print "0x" $1 }')
shows "a variable" "$(printf 'counter int 0x%x w 4 1' "$address")" \
	--watch counter whole
shows "a spec" " rw 4 1" --event watch:counter:rw/if=changed/ whole
shows "a chain" "+8]+16" -w 'list->next->where' whole
shows "an odd one" " w 4 3" -w packed.value whole
refuses 1 "it takes more debug registers than there are: same: 48 bytes take 6 registers of 4" -w same whole
shows "its size all the same" " w 48 6" -w same whole
refuses 1 "did you mean counter" -w cuonter whole
refuses 1 "next_id::last" -w last whole
refuses 1 "struct node has no nxt; did you mean next?" -w 'list->nxt' whole
refuses 1 "needs a value: if=CONDITION" -w 'counter/if=/' whole
refuses 1 "\"i]\"" -w 'matrix[i]' whole
refuses 1 "no processor watches reads alone" -w counter:r whole
refuses 1 "function" -w next_id whole
refuses 2 "by itself" -w counter --func next_id whole
refuses 2 "name a file" -w counter
strip -g whole -o bare
refuses 1 "counter; its symbol has 4 bytes" -w counter bare
shows "a length in place of a type" " w 4 1" -w counter/4 bare

# A watch takes no globs.
for glob in 'c*' 'count??' '?*count' 'packed.*' 'list->n*' 'sample_watch.c::*' 'c*@whole'; do
	refuses 1 "name the variable or member in place of" -w "$glob" whole
done
refuses 1 "a closing bracket is expected in place of \"*" -w '(counter*' whole
refuses 1 "counter is of type int: only a pointer can be followed" -w '*counter' whole
refuses 1 "the process has no module of this name: libno" -w 'counter@libno' whole

json=$("$waymark" list --json -w counter -w 'list->value' whole)
expect "JSON" "$(python3 -c '
import json, sys
one, two = json.loads(sys.argv[1])["watchable"]
print(one["type"], one["address"], one["bytes"], one["registers"], one["pieces"], two["address"], two["kind"])
' "$json")" "int $(printf '0x%x 4 1 0x%x' "$address" "$address") 4 None w"

# A process: where its variables lie by its own word, and what they hold.
mkfifo input
./live <input >printed &
pid=$!
exec 9>input
await_text printed '^end'
for expr in 'head->next->value' 'slots[2]' 'exported' 'thing->second' 'main::inside' 'of_library'; do
	where=$(awk -v expr="$expr" '$1 == expr { print $2 }' printed)
	json=$("$waymark" list --json -p "$pid" -w "$expr")
	expect "$expr" "$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["watchable"][0]["address"])' "$json")" "$where"
done
shows "a value" " 1 2" -p "$pid" -w thing-\>second
shows "a structure's" "{x = 5, y = 6}" -p "$pid" -w 'thing->inner[1]'
shows "the thread's" "thread-" -p "$pid" -w 'first_of_thread/thread=1/'
refuses 1 "nothing of the program is mapped at the address: broken->next would lie at 0x1000" -p "$pid" -w 'broken->next->value'
refuses 1 "each thread has a variable of its own" -p "$pid" -w first_of_thread
exec 9>&-
wait "$pid"

# A container's split debug information is where the container has it, and not where we have that path.
mkdir -p box/bin box/made
if [ "$(id -u)" -eq 0 ] && (cd box/made &&
	gcc -g -gsplit-dwarf "-fdebug-prefix-map=$PWD=/made" -c \
		"$source_dir/tests/targets/watch/box.c" && gcc -static -o ../bin/box box.o) &&
	[ -e box/made/box.dwo ] && chroot box /bin/box once; then
	for way in "chroot" "unshare --mount chroot"; do
		# shellcheck disable=SC2086 # words
		$way box /bin/box >printed &
		pid=$!
		await_text printed '^\.'
		shows "in a container ($way)" "chest.parts " -p "$pid" -w chest.parts
		shows "in a container ($way)" " w 4 1" -p "$pid" -w 'chest.parts@box'
		kill -9 "$pid"
	done
	mv box/made/box.dwo box/made/away
	chroot box /bin/box >printed &
	pid=$!
	await_text printed '^\.'
	refuses 1 "/made/box.dwo, with debug information, was not read" -p "$pid" -w chest
	kill -9 "$pid"
else
	echo "without a root of its own no program is tried"
fi
exit $failed
