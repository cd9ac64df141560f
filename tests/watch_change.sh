#!/bin/bash
# SPDX-License-Identifier: MIT
# A watch is changed while a session runs: from then on all hits of the new one are reported, each once; where any process or the
# kernel refuses, the old one is unchanged; and the trace says when.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

! is_sanitized libwaymark.so ||
	skip "a library built for a sanitizer can't be linked by programs that are not"
cp -L "$WAYMARK_BUILD/libwaymark.so" libwaymark.so.0 || exit 1
cc -O1 -g -Wall -Wextra -Werror -I"$source_dir/include" "$source_dir"/tests/{watch_change,watch_change_bed,failures}.c -o changes \
	./libwaymark.so.0 -lpthread -Wl,-rpath,"$folder" || exit 1

modes=(steps children unstopped refused together race race_of_two)
[ -n "${WAYMARK_GUEST:-}" ] || modes+=(race_of_pair) # tests/guest/list.txt has the reason
for mode in "${modes[@]}"; do
	timeout 60 ./changes $mode >said 2>&1
	case $? in
	0) ;;
	77) skip "$(cat said)" ;;
	*) fail "$mode: $(head -5 said)" ;;
	esac
done
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod 711 . && mkdir -m 777 theirs
	XDG_RUNTIME_DIR='' timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups ./changes steps >said 2>&1 ||
		fail "as an ordinary user: $(head -5 said)"
fi

# All threads have stored before the change, and behind it.
timeout 60 ./changes trace traced || fail "into a folder"
expect "before" "$(field_values traced alpha new | tail -1)" 20
expect "behind" "$(field_values traced beta new | sed -n '1p;$p' | tr '\n' ' ')" "21 40 "
field_values traced alpha new | cmp -s - <(seq 1 20) || fail "alpha: $(field_values traced alpha new | tr '\n' ' ')"
field_values traced beta new | cmp -s - <(seq 21 40) || fail "beta: $(field_values traced beta new | tr '\n' ' ')"
grep -q "watch:alpha  watch:beta/if=changed/ .* yes$" <<<"$("$waymark" report traced)" ||
	fail "report: $("$waymark" report traced)"
python3 - "$("$waymark" report --json traced)" <<'PY' || fail "report --json"
import json, sys
report = json.loads(sys.argv[1])
change, = report["change"]
assert change["from"] == "watch:alpha" and change["to"] == "watch:beta/if=changed/", change
assert change["stopped"] is True and 0 < change["gap_ns"] < 10**10, change
assert report["begin_ns"] - 10**9 < change["begin_ns"] < report["end_ns"] + 10**9, change
PY
expect "babeltrace2" "$(events_in traced)" 40

# From the command line: lines of standard input.
build_target watch/ticks.c
start ./ticks >ready
mkfifo lines
"$waymark" watch -f -i one -p "$pid" <lines >out 2>words &
watcher=$!
exec 8>lines
await_text out 'ticks.c:[0-9]'
printf 'no_such\n\n# nothing\n%s\n' "$(printf '%3000s' x)" >&8
await_text words "there is no such variable"
await_text words "a line of standard input"
printf '  two/if=changed/ \n' >&8
await_text words "watch:one became watch:two/if=changed/; the program stood still for [0-9]* us"
await_text out 'two.*ticks.c:[0-9]'
printf 'watch:one' >&8 # the last line may have no end
exec 8>&-
await_text words "watch:two/if=changed/ became watch:one;"
has_hit_again() { [ "$(sed -n '/  two  /,$p' out | grep -c '  one  ')" -gt 0 ]; }
await has_hit_again || fail "no hit of the third watch: $(tail -n 3 out)"
kill -TERM $watcher
wait $watcher
expect "watch -i" $? 0
expect "its summary" "$(grep -c '^waymark: watch:.*: [0-9,]* hits\?\>' words)" 3
grep -q "^waymark: watch:one: .* hits\?; then changed, while the program stood still" words || fail "$(cat words)"
grep -q "missed" words && fail "$(cat words)"

# The changed watch ends with its library, and the program continues.
build_target watch/library.c -shared -fPIC -o library.so
start ./watched closes ./library.so >closed
"$waymark" watch -f -i counted -p "$pid" <lines >out 2>words &
watcher=$!
exec 8>lines
await_text out 'watched.c:'
echo 'in_library@library.so' >&8
await_text out '  in_library  '
kill -USR1 "$pid"
await_text closed closed
has_inside() { [ "$("$waymark" claims -p "$pid" | grep -c "watch:in_library")" -gt 0 ]; }
await ! has_inside || fail "the library's watch is held: $("$waymark" claims -p "$pid")"
exec 8>&-
kill -TERM $watcher
wait $watcher
expect "watch -i into a library" $? 0
grep -q "missed" words && fail "$(cat words)"
kill -0 "$pid" || fail "the program has ended with its library's watch"

timeout 20 "$waymark" watch -i one ./ticks 2>words
expect "-i with a command" "$? $(grep -c 'goes with -p' words)" "2 1"
timeout 20 "$waymark" watch -i -e in_turn -e raced -p "$pid" 2>words
expect "-i with two" "$? $(grep -c 'Name one EXPR' words)" "2 1"
exit $failed
