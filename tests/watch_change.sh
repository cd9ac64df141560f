#!/bin/bash
# SPDX-License-Identifier: MIT
# A watch is changed while a session runs: what is told from then on is the new one's, all of it, and each hit once; where any process or the
# kernel refuses, the old one is whole; and the trace tells when.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

if [ "$(nm -D "$WAYMARK_BUILD/libwaymark.so" | grep -cE "__(asan|tsan|ubsan)_")" -gt 0 ]; then
	skip "a library built for a sanitizer can't be linked by programs that are not"
fi
cp -L "$WAYMARK_BUILD/libwaymark.so" libwaymark.so.0 || exit 1
cc -O1 -g -Wall -Wextra -Werror -I"$source_dir/include" "$source_dir/tests/watch_change.c" -o changes \
	./libwaymark.so.0 -lpthread -Wl,-rpath,"$folder" || exit 1

for mode in steps refused together race race_of_two race_of_pair; do
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
expect "before" "$(told traced alpha new | tail -1)" 20
expect "behind" "$(told traced beta new | sed -n '1p;$p' | tr '\n' ' ')" "21 40 "
told traced alpha new | cmp -s - <(seq 1 20) || fail "alpha: $(told traced alpha new | tr '\n' ' ')"
told traced beta new | cmp -s - <(seq 21 40) || fail "beta: $(told traced beta new | tr '\n' ' ')"
grep -q "Changes .* watch:alpha became watch:beta/if=changed/ in .*, which stood still for" <<<"$("$waymark" report traced)" ||
	fail "report: $("$waymark" report traced)"
python3 - "$("$waymark" report --json traced)" <<'PY' || fail "report --json"
import json, sys
report = json.loads(sys.argv[1])
change, = report["changes"]
assert change["from"] == "watch:alpha" and change["to"] == "watch:beta/if=changed/", change
assert change["stopped"] is True and 0 < change["gap_ns"] < 10**10, change
assert report["begin_ns"] - 10**9 < change["begin_ns"] < report["end_ns"] + 10**9, change
PY
expect "babeltrace2" "$(events_in traced)" 40
exit $failed
