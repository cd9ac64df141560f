#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark trail, of programs that were recorded: how a crash came about, files that are missing or others.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/tests/trail_oracle/waymark-oracle # by the exact origin `step`, and the same code
command -v cc >/dev/null || skip "no C compiler"

# trail STATUS ARGUMENT...: waymark trail, what it prints in ./out and ./words
trail()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" trail "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "trail $*: status $got, expected $wanted: $(cat words)"
}

# has FILE TEXT; lacks FILE TEXT
has()
{
	grep -qF -- "$2" "$1" || fail "expected '$2' in $1: $(head -30 "$1")"
}

lacks()
{
	! grep -qF -- "$2" "$1" || fail "unexpected '$2' in $1: $(head -30 "$1")"
}

# ends TEXT: the last line that was printed has it
ends()
{
	tail -1 out | grep -qF -- "$1" || fail "expected '$1' in the last line: $(tail -1 out)"
}

# Without a library: few instructions, and each is known.
build()
{
	cc -g -O1 -static -nostdlib -no-pie -fno-pic -fno-stack-protector -Wl,--build-id "$@" \
		"$crash" "${crash%/*}/start.S" -o crash || skip "no static program can be built"
}
crash=$source_dir/tests/targets/trail/crash.c
here=$(grep -n 'here \*' "$crash" | head -1 | cut -d: -f1)
there=$(grep -n 'there \*' "$crash" | cut -d: -f1)

build
timeout -k 5 60 "$waymark" record -e trail/auto/ -o crashed -- ./crash >record.out 2>record.words
[ -e crashed/metadata ] || { cat record.words; skip "it can't be recorded here"; }

# The last line is the instruction that faulted, with its function and line; before it, who called.
trail 0 crashed
ends "killed by SIGSEGV at deref (crash.c:$here): mov (%rdi), %eax"
tail -2 out | head -1 | grep -qE "main\+0x[0-9a-f]+ +crash\.c:$there +call +-> deref +crash\.c:" ||
	fail "the call before: $(tail -2 out)"
[ "$(grep -c 'jne .*sum_of' out)" -eq 3 ] || fail "three turns of the loop: $(cat out)"
trail 0 --intel crashed
ends "(crash.c:$here): mov eax, [rdi]"
trail 0 --instructions -n 1 crashed
[ "$(wc -l <out)" -eq 3 ] || fail "a head, the last instruction, the end: $(cat out)"
trail 0 --blocks -v crashed
has out "sum_of+0x"

# Each line of --json is an object.
if command -v python3 >/dev/null; then
	for way in --branches --instructions "--blocks -v"; do
		# shellcheck disable=SC2086 # two words
		trail 0 --json $way crashed
		python3 -c 'import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert len(lines) > 3 and all(isinstance(line, dict) and line["type"] for line in lines)' <out ||
			fail "--json $way is no JSON"
	done
fi

# Without the file: everything but names, and one line that says what to do.
mkdir -p root"$folder" root/usr/lib/debug
mv crash root"$folder"/crash
trail 0 crashed
has out "call   -> crash+0x"
lacks out "deref"
[ "$(wc -l <words)" -eq 1 ] || fail "one line for the one file: $(cat words)"
has words "no names in $folder/crash: No such file or directory; give the folder where it is with --root"
trail 0 --root root crashed
ends "killed by SIGSEGV at deref (crash.c:$here): mov (%rdi), %eax"
[ ! -s words ] || fail "words: $(cat words)"

# Another file in its place is not taken for it.
build -DOTHER -Wl,-Ttext=0x500000
trail 0 crashed
lacks out "deref"
has words "no names in $folder/crash: "
id=$(sed -n 's/.*of build id \([0-9a-f]*\)$/\1/p' words)
[ ${#id} -ge 16 ] || fail "no build id in: $(cat words)"

# With its debug file alone it has names and lines.
if command -v objcopy >/dev/null && [ -n "$id" ]; then
	mkdir -p "debug/usr/lib/debug/.build-id/${id:0:2}"
	objcopy --only-keep-debug root"$folder"/crash \
		"debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" || fail "objcopy"
	trail 0 --root debug crashed
	ends "killed by SIGSEGV at deref (crash.c:$here)"
	[ ! -s words ] || fail "words: $(cat words)"
fi

# Without a build id only the code that ran identifies a file.
build -Wl,--build-id=none
timeout -k 5 60 "$waymark" record -e trail/auto/ -o nameless -- ./crash >record.out 2>record.words
trail 0 nameless
[ ! -s words ] || fail "words: $(cat words)"
sed 's/return \*p + 1/return *p + *p/; s/sum += i/sum += 3 * i/' "$crash" >crash.c
cp "${crash%/*}/start.S" . && crash=$folder/crash.c
build -Wl,--build-id=none
for way in "" --calls --functions --instructions --lines; do
	# shellcheck disable=SC2086 # may be empty
	trail 0 $way nameless
	has words "$folder/crash has other code than ran there in "
done

# It is read while it is cut short.
for file in crashed/*-1; do
	truncate -s -1 "$file"
done
trail 1 crashed
has words "damaged"
exit $failed
