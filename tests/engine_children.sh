#!/bin/bash
# SPDX-License-Identifier: MIT
# Children under waymark record -e trail/soft/: recorded each under its own number, and doing what they do without.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
children=$WAYMARK_BUILD/tests/targets/engine/engine-children
barred=$WAYMARK_BUILD/tests/targets/engine/engine-barred

# same COMMAND...: natively and recorded (into ./ran) it prints the same lines, whichever first, and ends so
event=trail/soft/
same()
{
	local status
	timeout 60 "$@" 2>native_words | sort >native
	status=${PIPESTATUS[0]}
	rm -rf ran
	timeout 120 "$waymark" record --json -e "$event" -o ran -- "$@" >out 2>words
	expect "$*" $? "$status"
	grep -v '^{' out | sort >soft
	cmp -s native soft || fail "$*: $(diff native soft)"
}

# trails COUNT: so many processes have one, or more
trails()
{
	local got
	got=$(timeout 60 "$waymark" trail -n 1 ran 2>shown_words | grep -o "(process [0-9]*)" | sort -u | wc -l)
	[ "$got" -ge "$1" ] || fail "$got processes have trails, not $1: $(cat shown_words)"
	grep "no end" shown_words && fail "a trail has no end"
}

same "$children" tree
trails 15
timeout 60 "$waymark" trail --functions -n 0 ran >shown 2>&1
for level in 0 1 2 3; do
	grep -qE "^.* $((1 << level)) .*level_$level " shown || fail "level_$level: $(grep level_ shown)"
done

# because WORDS: the one cause of all children that went on unrecorded, in words and in the JSON output
because()
{
	expect "causes named" "$(grep -c 'went on unrecorded' words)" 1
	grep -qF "went on unrecorded: $1" words || fail "not because $1: $(cat words)"
	grep -q '"kind":"unfollowed",' out && grep -qF "went on unrecorded: $1" out || fail "not in --json: $1: $(cat out)"
}

same "$children" storm 300
same "$children" crowd 40
trails 41
same "$children" counts 3
trails 4
same "$children" handler 10
trails 11
same "$children" threads 10
trails 31
same "$children" spawn 3
trails 6
same "$children" vforks 3000
same "$children" vforks_that_fork 10
trails 2
expect "children of vfork's child: unfollowed" "$(json unfollowed)" 10
because "a child of vfork(2) made it"
same "$children" chain 4
trails 1
same "$children" thread_executes
same "$children" executes_badly
same "$children" killed
trails 3
timeout 60 "$waymark" trail -n 1 ran >shown 2>&1
grep -q "killed by SIGKILL" shown || fail "the killed process is not reported: $(tail -5 shown)"
same "$children" daemon
trails 3

# Who is traced by another of them runs natively from before that, and sees nothing of the engine; that is said.
for round in 1 2 3; do
	same "$children" traced
	grep -q "^waymark: 6 processes went on natively (another process that traces it)" words || fail "traced, round $round: $(cat words)"
done
if command -v gdb >/dev/null; then
	run_gdb=(gdb -nx -batch -ex 'set confirm off' -ex 'set print thread-events off' -ex run --args /bin/echo said)
	timeout 60 "${run_gdb[@]}" 2>/dev/null | grep -v -i process >native
	rm -rf ran
	timeout 120 "$waymark" record -e trail/soft,last=1M/ -o ran -- "${run_gdb[@]}" 2>words | grep -v -i process >soft
	cmp -s native soft || fail "gdb: $(diff native soft)"
fi
same "$children" grown 6
# A flight recorder's program never waits for us: what it waits for, others may look for.
event=trail/soft,last=4M/
same "$children" awake 20
event=trail/soft/

# Shells, compilers, what there is.
same sh -c 'i=0; while [ $i -lt 50 ]; do echo $i; i=$((i + 1)); done | (while read -r a; do echo "$a"; done) | sort -n; (exit 3); echo $?; exit 4'
trails 4
same bash -c 'for i in 1 2 3; do (echo $i | cat); done; x=$(echo $(echo y)); echo $x; /bin/false || echo no; nonexistent-program; exec echo done'
trails 8
same cc -c -o one.o "$source_dir/tests/targets/watch/exchange.c"
trails 3
if command -v python3 >/dev/null; then
	cat >several.py <<-'EOF'
		import multiprocessing, subprocess
		def square(x): return x * x
		if __name__ == "__main__":
		    with multiprocessing.get_context("fork").Pool(3) as pool: print(pool.map(square, range(8)))
		    print(subprocess.check_output(["/bin/echo", "a"]), subprocess.run("exit 7", shell=True).returncode)
		    try: subprocess.run(["/nonexistent/program"])
		    except FileNotFoundError as error: print(error)
	EOF
	python=$(python3 -c 'import sys; print(sys.executable)')
	same "$python" several.py
	trails 6
fi

# At first the tool makes room for 256 living processes.
same "$children" crowd 1500
trails 1501
expect "a crowd: unfollowed" "$(json unfollowed)" 0
expect "a crowd: ends" "$(timeout 60 "$waymark" trail -n 1 ran 2>/dev/null | grep -c 'ended: exited with')" 1501

# A child that the engine can't follow runs natively, and the tool says so.
same "$children" sharing
expect "who shares memory: unfollowed" "$(json unfollowed)" 1
because "it shares its parent's memory or descriptors"
same "$children" waited 3
expect "who is waited for: unfollowed" "$(json unfollowed)" 3
same "$children" guests 3
expect "who shares memory and forks: unfollowed" "$(json unfollowed)" 3
trails 4
same "$barred" filtered
expect "who has a filter: unfollowed" "$(json unfollowed)" 1
because "it has a seccomp filter"
same "$barred" full
expect "who has no descriptors: unfollowed" "$(json unfollowed)" 10
because "it can have no descriptor more"
same "$barred" cramped
expect "who has no room: unfollowed" "$(json unfollowed)" 1
because "its limit of memory has no room for the engine"
same "$barred" swept
trails 11
if [ "$(id -u)" = 0 ]; then
	mkdir -m 777 others
	chmod 755 .
	cp "$barred" .
	timeout 60 setpriv --reuid 65534 --clear-groups "$waymark" record --json -e trail/soft/ -o others/ran -- \
		"$folder/engine-barred" undumpable >out 2>words
	expect "who keeps others out" $? 0
	expect "who keeps others out: unfollowed" "$(json unfollowed)" 10
	because "it may not be traced"
fi
if unshare --pid --fork true 2>/dev/null; then
	# shellcheck disable=SC2016 # the shell inside prints its number
	same unshare --pid --fork sh -c 'echo $$; /bin/true; exit 3'
	expect "in another namespace: unfollowed" "$(json unfollowed)" 1
	because "it is in a PID namespace of its own"
else
	echo "skipped: no namespace of pids can be had"
fi

# A program that is not x86-64 is not one that gains rights.
if echo 'void main(void) { __asm__("int $0x80" : : "a"(1), "b"(5)); }' | cc -m32 -nostdlib -static -Wl,-e,main \
	-x c - -o narrow 2>/dev/null && { ./narrow; [ $? = 5 ]; }; then
	same sh -c './narrow; exit 4'
	grep -q "executed a program that is not x86-64" words || fail "a narrow program: $(cat words)"
else
	echo "skipped: no programs of 32 bits can be run"
fi

# With last=, all that they write is read at the end, when they are over by then: each is one process, and has its newest.
for round in 1 2; do
	rm -rf newest
	# shellcheck disable=SC2016
	timeout 60 "$waymark" record -e trail/soft,last=1M/ -o newest -- sh -c 'i=0; while [ $i -lt 40 ]; do
		i=$((i + 1)); (j=0; while [ $j -lt 3000 ]; do j=$((j + 1)); done) & done; wait' >out 2>words
	expect "last=, round $round" $? 0
	grep -q "of 41 threads of 41 processes" words || fail "last=: $(cat words)"
done
[ "$(timeout 60 "$waymark" trail -n 1 newest 2>words | grep -c "by soft: [1-9]")" -eq 41 ] || fail "last=: not all have a trail: $(cat words)"

# They may be left alone.
timeout 60 "$waymark" record --no-follow -e trail/soft/ -o alone -- "$children" tree >out 2>words
expect "--no-follow" $? 0
[ "$(timeout 60 "$waymark" trail -n 1 alone 2>&1 | grep -c "(process ")" -eq 1 ] || fail "--no-follow: not one process"

# has_computing_children RECORDER: three children of the program that it started have had CPU time
has_computing_children()
{
	local program child computing=0
	for program in $(pgrep -P "$1" -x engine-children); do
		for child in $(pgrep -P "$program"); do
			[ "$(cpu_ticks "$child")" -lt 5 ] || computing=$((computing + 1))
		done
	done
	[ $computing -ge 3 ]
}

# has_lines FILE COUNT
has_lines()
{
	[ "$(wc -l <"$1")" -ge "$2" ]
}

# The recorder is killed: all processes continue as natively.
"$children" lasting 4000000 | sort >native
for who in recorder tracer; do
	rm -rf ended
	"$waymark" record -e trail/soft/ -o ended -- "$children" lasting 4000000 >out 2>words &
	recorder=$!
	await has_computing_children $recorder || fail "$who: no three children compute"
	# shellcheck disable=SC2034 # used by its name
	tracer=$(pgrep -P $recorder -x waymark-tracer) || fail "$who: there is no tracer"
	kill -0 "$recorder" || fail "$who: it is over already"
	kill -9 "${!who}" # $recorder or $tracer
	wait $recorder 2>/dev/null
	await -s 30 has_lines out 6
	sort out | cmp -s - native || fail "$who killed: $(cat out)"
done
exit $failed
