#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes that can't be: each with its clear line, a status, and nothing changed.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

start ./probed 0 2 1000
await_running "$pid"

# Names.
bad 1 "did you mean factorial?" -e func:factoral@probed -p "$pid"
bad 1 "no such function" -e func:nothing_like_it@probed -p "$pid"
bad 1 "no such function" -e 'func:nothing_like_*@probed' -p "$pid"
bad 1 "no such function" -e 'func:nothing_like_*' -e func:nothing_like_it -p "$pid"
bad 1 "no such probe" -e usdt:shop:nothing -p "$pid"
[ -z "$has_sdt" ] || {
	bad 1 "did you mean shop:order" -e usdt:shop:odrer -p "$pid"
	bad 1 "there is no such parameter or argument" -e usdt:shop:order/arg99/ -p "$pid"
	bad 1 "there is no such parameter or argument" -e usdt:shop:order/rdi/ -p "$pid"
}
# The vdso has it where there is one.
bad 1 "nothing in the process shows it" -e func:gettimeofday@libc.so.6 -p "$pid"
build_target record/same.c -O2 -DOTHER -c -o other.o
build_target record/same.c -O2 other.o -o twice
probed=$pid
start ./twice
await_running "$pid"
run 0 --json --for 200ms -e func:same -o same -p "$pid"
says "func:same: 2 functions have this name"
says "twice:same"
says "addr:FILE+OFFSET a single one"
expect "both are recorded" "$("$waymark" dump same | awk '{ print $5 }' | sort -u | wc -l)" 2

# libc's prctl and syscall are Waymark's while it records strings or callers.
bad 1 "Waymark runs code of its own in place of this function" \
	-e func:prctl@libc.so.6/rsi:str/ -p "$pid"
bad 1 "record it in a recording of its own, without these" -e func:syscall@libc.so.6/bt=8/ -p "$pid"
run 0 --for 100ms -o unguarded -e func:syscall@libc.so.6 -p "$pid"

# What a uprobe of another tool could leave wrong is refused on request.
bad 1 "a uprobe of another tool could leave wrong code behind here, and the spec says /safe/" -e func:hop/safe/ -p "$probed"
run 0 --json --for 200ms -e func:lean/safe/ -o safe -p "$probed"
[ "$(json recorded)" -gt 10 ] || fail "lean, which is safe: few events"

# Returns, beside a library that copies stacks.
cp libprobed.so libco.so
LD_PRELOAD=./libco.so run 1 --json -e func:library_add/ret/ -o copied -- ./loads ./libco.so 2 5
says "a library of the process copies stacks away and back"
expect "beside libco: refused" "$(json refused)" 1

# Stripped.
cp probed bare
strip bare
start ./bare 0 1 1000
await_running "$pid"
bad 1 "stripped" -e func:add@bare -p "$pid"
pid=$probed

# Addresses.
at()
{
	printf '0x%x' $((0x$(nm probed | awk -v name="$1" '$3 == name { print $1 }') + $2))
}
bad 1 "in the middle of an instruction" -e "addr:probed+$(at sum6 1)" -p "$pid"
bad 1 "not in code" -e "addr:probed+$(at data_word 0)" -p "$pid"
bad 1 "not in code" -e "addr:probed+0x7fffffff" -p "$pid"
bad 1 "the kernel's" -e 'addr:[vdso]+0x10' -p "$pid"
bad 1 "the kernel's" -e 'func:__vdso_gettimeofday@[vdso]' -p "$pid"
bad 1 "the program jumps into the instruction" -e func:split -p "$pid"
bad 1 "no code begins at this line" -e "addr:probed.c:2" -p "$pid"

# Options.
bad 1 "can't be read" -e func: -p "$pid"
bad 1 "as this type" -e 'func:add/arg1:strange/' -p "$pid"
bad 1 "no such parameter" -e 'func:add/arg99/' -p "$pid"
bad 1 "is an option of func, and not of addr" -e "addr:probed+$(at sum6 0)/ret/" -p "$pid"
bad 1 "can't be read" -e usdt:shop -p "$pid"
bad 1 "can't be read" -e addr:probed -p "$pid"
bad 1 "given twice" -e func:add -e func:add -p "$pid"
bad 2 "--tree" --tree ./probed

# Nothing of all that has changed the program; one bad function among good ones is reported, the rest recorded.
same_bytes "$pid" /probed "refusals"
run 0 --json -v --for 200ms -e 'func:*@probed' -o some -p "$pid"
says "split"
says "refused"
[ "$(json refused)" -gt 0 ] || fail "nothing was refused"
[ "$(json recorded)" -gt 0 ] || fail "nothing was recorded"

# For programs: every member that waymark-json(5) names, whether it came to recording or not.
members="dir recorded discarded bytes seconds processes markers sites refused status error places
	unwatched finding watch"
whole_sum()
{
	local member
	for member in $members; do
		grep -q "[{,]\"$member\":" out || fail "$1: --json without $member: $(cat out)"
		grep -q "^\*\*$member\*\*\|, \*\*$member\*\*" "$source_dir/docs/man/waymark-json.5.md" ||
			fail "waymark-json(5) doesn't name $member"
	done
	! command -v python3 >/dev/null || python3 -m json.tool out >/dev/null || fail "$1: $(cat out)"
}
whole_sum "a recording"
expect "unarmed" "$(found unarmed)" 0
run 1 --json -e func:split -o $'not\xffUTF-8"\n' -p "$pid"
whole_sum "nothing but refusals"
expect "split in JSON" "$(found refusal probed:split)" 1
expect "places" "$(json places)" 1
kill "$pid"

# Programs that no agent can enter.
if echo 'int main(void) { for (;;) __builtin_ia32_pause(); }' | cc -static -x c - -o static 2>/dev/null; then
	bad 1 "statically linked" -e func:main ./static
	start ./static
	bad 1 "statically linked" -e func:main -p "$pid"
	kill -9 "$pid"
fi
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$folder"
	start ./probed 0 1 1000
	roots=$pid
	(cd /tmp && unset XDG_RUNTIME_DIR && exec setpriv --reuid 65534 --clear-groups \
		timeout 20 "$waymark" record -e func:add -o "/tmp/waymark-probes-$$" -p "$roots") >out 2>words
	expect "another user's process: status" $? 1
	says "pid $roots"
fi

# A process in a user namespace that has no place for us: its agent could not know who asks.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null &&
	setpriv --reuid 65534 --clear-groups unshare --user --map-root-user true 2>/dev/null; then
	chmod 755 "$folder"
	start setpriv --reuid 65534 --clear-groups unshare --user --map-root-user ./probed 0 1 1000
	await_running "$pid"
	bad 1 "it runs as user 65534" -e func:add -p "$pid"
	kill -0 "$pid" || fail "the program in a user namespace is gone"
fi

# Programs of another kind.
if echo 'int main(void) { for (;;) __builtin_ia32_pause(); }' | cc -m32 -nostdlib -static -Wl,-e,main \
	-x c - -o narrow 2>/dev/null; then
	bad 1 "not x86-64" -e func:main ./narrow
	start ./narrow
	if ! has_ended "$pid"; then # this kernel runs such programs
		bad 1 "not x86-64" -e func:main -p "$pid"
		timeout 20 "$waymark" list --func main -p "$pid" >out 2>words
		expect "list of a 32-bit process: status" $? 1
		says "not x86-64"
	fi
fi

# Its own tracer holds each thread: where threads have to stop nothing is placed, and the status says so.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
	run 0 --json -e func:lean@probed -o beside -- strace -o /dev/null ./probed 20
	expect "beside a tracer" "$(json recorded)" 20
	run 1 -v -e func:hop@probed -o traced -- strace -o /dev/null ./probed 20
	says "another process traces it"
	says "none of the places could be probed"
fi

# Another process traces it: refused by name, and the program continues.
if command -v gdb >/dev/null; then
	start ./probed 0 1 1000
	mkfifo let_go
	exec 8<>let_go
	gdb -p "$pid" -batch -ex 'shell touch held' -ex 'shell head -n 1 let_go' >/dev/null 2>&1 &
	await [ -e held ] || fail "gdb does not come"
	bad 1 "$pid" -e func:add -p "$pid"
	echo >&8
	wait $!
	kill -0 "$pid" || fail "the traced program is gone"
fi

# Our own diversion of the loader is named as ours.
run 1 --for 300ms -o loader -e 'func:_dl_debug_state@ld-linux-x86-64.so.2' -p "$pid"
says "this code is Waymark's own"

exit "$failed"
