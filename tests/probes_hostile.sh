#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that change under armed probes, while uprobes come and go: they execute another, load a library elsewhere,
# map memory where jumps lead, sum up their own code, forbid themselves to map code. Each result is right, and the
# recording says what is missing.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

for name in uprobes hostile; do
	cc -O2 -g $has_sdt -I"$source_dir/include" "$probes_dir/$name.c" -o $name -lpthread -ldl || exit 1
done
has_uprobe=
[ -e /sys/bus/event_source/devices/uprobe/type ] && [ "$(id -u)" = 0 ] && has_uprobe=1

# storm FILE PID FUNCTION...: uprobes at the functions, side by side with what follows; calm ends it
storm()
{
	local file=$1 whom=$2 at=() name
	shift 2
	[ -n "$has_uprobe" ] || return 0
	for name; do at+=("$(nm -D "$file" 2>/dev/null | cat - <(nm "$file") | awk -v n="$name" '$3 == n { print $1; exit }')"); done
	./uprobes storm "$PWD/$file" 100000 "$whom" "${at[@]}" >/dev/null &
	storming=$!
	started+=("$storming")
	disown $storming
}

calm()
{
	[ -n "$has_uprobe" ] || return 0
	kill $storming || fail "the storm has ended before"
	await has_ended $storming
}

# at_work MODE [ARGUMENT]: the program runs; its words are in ./said
at_work()
{
	rm -f said
	./hostile "$@" >said &
	pid=$!
	started+=("$pid")
	await_text said ready
}

# ended: it was right all the time
ended()
{
	kill -TERM "$pid" 2>/dev/null
	wait "$pid" || fail "$1: status $?: $(cat said)"
	grep -q '^right$' said || fail "$1: $(cat said)"
}

held() { found missing-hits-of; }

# ---- executed again ----

storm hostile 0 ho_push ho_short
run 0 --json -o exec -e 'func:ho_*' -- ./hostile exec 15
calm
grep -q '^right$' out || fail "executed: $(cat out)"
[ "$(json recorded)" -ge 1 ] || fail "executed: nothing is recorded"

# ---- a library that comes and goes ----

# in a form that is safe beside uprobes
echo '__asm__(".globl library_add\n.type library_add, @function\nlibrary_add:\n"
	"push %rbp\nmov %rsp, %rbp\nlea (%rdi,%rsi), %eax\npop %rbp\nret\n.size library_add, .-library_add");' |
	cc -fPIC -shared -x c -o libadd.so - || exit 1
storm libadd.so 0 library_add
run 0 --json -o reload -e func:library_add@libadd.so/safe/ -- ./hostile reload ./libadd.so 20
calm
grep -q '^right$' out || fail "loaded again: $(cat out)"
# how often the uprobe is there as the library comes is the kernel's; each of 20 comes late
[ "$(json recorded)" -ge 1 ] || fail "loaded again: no call is recorded"
expect "loaded again: late" "$(found late-modules)" 20

# ---- uprobes for another process alone ----

if [ -n "$has_uprobe" ]; then
	at_work sum
	other=$pid
	mv said said.other
	at_work sum
	storm hostile "=$other" ho_push ho_short
	run 0 --json -o filtered -e 'func:ho_*' --for 1s -p "$pid"
	expect "uprobes of another process keep events out" "$(held)" 0
	calm
	ended "filtered"
	kill -TERM "$other"
	wait "$other" || fail "the other: $(cat said.other)"
fi

# ---- memory mapped where jumps lead ----

at_work maps waymark-detours
begin_record --json -o maps -e 'func:ho_*' -p "$pid"
await_event maps ho_push
kill -USR1 "$pid"
await_text said again
grep -q 'replaced 0' said && fail "no landing is mapped"
end_record 0 INT
[ "$(held)" -gt 0 ] || fail "landings replaced, and nothing said: $(cat out)"
# placed elsewhere, or refused
timeout 60 "$waymark" record -o again -e 'func:ho_*' --for 200ms -p "$pid" >out 2>words
ended "landings replaced"

# ---- its own code summed up ----

has_sums()
{
	[ "$(grep -c sum said)" -ge "$1" ]
}

at_work sum
kill -USR1 "$pid"
await_text said sum
before=$(grep sum said)
run 0 --json -o sum -e 'func:ho_*' --for 200ms -p "$pid"
kill -USR1 "$pid"
await has_sums 2
expect "the sum of its code, after a recording" "$(grep sum said | tail -1)" "$before"
ended "summed up"

# ---- no executable memory ----

at_work sealed
kill -USR1 "$pid"
await_text said forbidden
run 1 -o sealed -e 'func:ho_*' --for 200ms -p "$pid"
says "seccomp filter"
ended "sealed before"
at_work sealed
begin_record -o open -e func:ho_push/safe/ -p "$pid"
await_event open ho_push
kill -USR1 "$pid"
await_text said forbidden
run 1 -o sealed -e func:ho_short/safe/ --for 200ms -p "$pid"
says "map memory that can be executed"
end_record 0 INT
ended "sealed afterwards"
exit $failed
