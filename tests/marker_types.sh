#!/bin/bash
# SPDX-License-Identifier: MIT
# Arrays, strings of C++, base 16, network order, labels: from a marker to what dump and babeltrace2
# show, and what list calls them.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs code-change
command -v c++ >/dev/null || skip "no C++ compiler"
c++ -std=c++11 -O2 -I"$source_dir/include" "$source_dir/tests/targets/typed.cc" -o typed || exit 1
run 0 -o typed.trace -e 'typed:*' -- ./typed
sevens=$(printf '7, %.0s' {1..511})7

cat >wanted <<-END
	typed:arrays: { reals = [0.5, -1], words = [1, 4294967295], words_2 = [0x1, 0xffffffff], int_nullptr = NULL }
	typed:cut: { many = [$sevens]... }
	typed:numbers: { port = 0xbb01, port_2 = 443, signed_char_2 = 0xfe, now_nullptr = false }
	typed:labels: { now = busy, other = 3 }
	typed:strings: { text = "a \"text\"\n", none = "", made_1 = "made for number 1" }
	typed:times: { wait = 5000000 }
END
"$waymark" dump typed.trace | sed 's/.* typed:/typed:/' >got || fail "dump: status $?"
cmp -s wanted got || fail "dump: $(diff wanted got | cut -c 1-300)"

cat >wanted <<-END
	{"reals":[0.5,-1],"words":[1,4294967295],"words_2":[1,4294967295],"int_nullptr":null}
	{"port":47873,"port_2":443,"signed_char_2":-2,"now_nullptr":false}
	{"now":4,"other":3},"names":{"now":"busy"}
	{"text":"a \"text\"\n","none":"","made_1":"made for number 1"}
	{"wait":5000000}
END
"$waymark" dump --json typed.trace | sed 's/.*"fields"://; s/}$//' | grep -v many >got
cmp -s wanted got || fail "dump --json: $(diff wanted got)"
"$waymark" dump --json typed.trace | grep -q '"cut":\["many"\]' || fail "an array is not cut"

if command -v babeltrace2 >/dev/null; then
	babeltrace typed.trace >text 2>words || fail "babeltrace2: $(cat words)"
	for shown in 'reals = \[ \[0\] = 0.5, \[1\] = -1 \]' 'words_2 = \[ \[0\] = 0x1, \[1\] = 0xFFFFFFFF \]' \
		'port = 0xBB01, port_2 = 443' 'now = ( "busy" : container = 4 )' 'made_1 = "made for number 1"'; do
		grep -q -- "$shown" text || fail "babeltrace2 does not show $shown: $(cut -c 1-600 text)"
	done
fi

"$waymark" list ./typed >text || fail "list: status $?"
grep -q 'reals double\[\], words uint32\[\]' text || fail "list: $(cat text)"
exit $failed
