#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark doctor: what it says of this machine is what the kernel says to who asks by other ways, as root and as an ordinary user;
# in places where something is taken or forbidden; and of processes that can be recorded, or not.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark
ask=$source_dir/tests/doctor/ask.py
if [ "$(nm -D "$WAYMARK_BUILD/agent/libwaymark-agent.so" | grep -cE "__(asan|tsan|ubsan)_")" -gt 0 ]; then
	skip "an agent built for a sanitizer can't be loaded into programs that are not"
fi
chmod 755 .
cp "$ask" ask.py && chmod 644 ask.py
# one that others may run too
python=/usr/bin/python3
[ -x $python ] || python=$(command -v python3)

# doctor NAME [COMMAND...]: its answers into NAME.json, asked by way of COMMAND; $status is its own
doctor()
{
	local name=$1
	shift
	timeout -k 5 50 "$@" "$waymark" doctor --json >"$name.json" 2>"$name.err"
	status=$?
	cat "$name.err"
	[ ! -s "$name.err" ] && "$python" -m json.tool "$name.json" >/dev/null
}

# finding FILE NAME STATE WORDS [CHANGE]: it is so; else says what it is
finding()
{
	"$python" - "$@" <<-'END'
		import json, sys
		file, name, state, words, *change = sys.argv[1:]
		finding, = [f for f in json.load(open(file + ".json"))["findings"] if f["name"] == name]
		if finding["state"] != state or words not in finding["found"] or \
		   any(c not in (finding["change"] or "") for c in change):
		    sys.exit(f"{name} is {finding}, expected {sys.argv[3:]}")
	END
}

expect_finding()
{
	finding "$@" || fail "$1: $2"
}

# agrees NAME: what it said, with what was asked beside it in NAME.facts
agrees()
{
	"$python" - "$1" <<-'END'
		import json, sys
		name = sys.argv[1]
		told = {f["name"]: f for f in json.load(open(name + ".json"))["findings"]}
		facts = json.load(open(name + ".facts"))
		wrong = []
		def expect(what, is_so):
		    if not is_so:
		        wrong.append((what, told[what], facts.get(what)))
		for what in "user code", "kernel code", "whole processors", "counters", "programs of this user":
		    error = facts[what]
		    expect(what, told[what]["state"] == "absent" and error in told[what]["found"] if error
		           else told[what]["state"] in ("fine", "limited"))
		for what in "breakpoints", "with SIGTRAP":
		    count, error = facts[what]
		    expect(what, f"{count} of the processor's 4" in told[what]["found"] if error == "ENOSPC"
		           else told[what]["state"] == "absent" and error in told[what]["found"])
		    expect(what, told[what]["state"] == ("fine" if count == 4 else "limited" if count else "absent"))
		for what in "execution", "kernel's stores", "on a processor":
		    count, error = facts[what]
		    expect(what, f"({count} can be had)" in told[what]["found"] if count
		           else error in told[what]["found"] and told[what]["state"] == "absent")
		expect("open files", told["open files"]["found"].startswith(str(facts["files"])))
		expect("perf_event_paranoid", told["perf_event_paranoid"]["found"].startswith(f"{facts['level']}: "))
		expect("tsc", f" {facts['clocksource']};" in told["tsc"]["found"])
		expect("tsc", ("does not trust" in told["tsc"]["found"]) != facts["trusts"])
		expect("units", sorted(told["units"]["found"].split()) == facts["units"])
		if wrong:
		    sys.exit("\n".join(map(str, wrong)))
	END
}

# both NAME [COMMAND...]: asked in the same place, one after the other
both()
{
	local name=$1
	shift
	doctor "$name" "$@" &&
		timeout -k 5 50 "$@" "$python" ask.py facts >"$name.facts" && agrees "$name"
}

# again CHECK...: until it holds; other tests that run beside this one may have taken registers of a processor just then
again()
{
	local try
	for try in 1 2 3 4 5 6 7 8; do
		"$@" >again.out 2>&1 && return
		sleep "$try"
	done
	fail "$*: $(cat again.out)"
}

stop()
{
	# shellcheck disable=SC2154 # coproc sets it
	kill "$hold_PID" && wait "$hold_PID" 2>/dev/null
}

# ---- this machine ----

again both own
doctor own || fail "own: $(cat own.json)"
expect "own: status" $status "$(grep -qE '"state":"absent","basic":true' own.json && echo 1 || echo 0)"
few()
{
	both few "$python" ask.py hold 3 inherit &&
		finding few breakpoints limited "1 of the processor's 4 can be had" "when it ends" &&
		finding few breakpoints limited "python3"
}
again few
none()
{
	both none "$python" ask.py hold 4 inherit && [ $status -eq 1 ] &&
		finding none breakpoints absent "0 of the processor's 4"
}
again none
again both limited bash -c 'ulimit -n 100; exec "$@"' bash
expect_finding limited "open files" limited "100 (RLIMIT_NOFILE)" "ulimit -n"
# the sanitizers' notes of a tool built for one need far more
if [ "$(nm "$waymark" | grep -cE "__(asan|tsan)_init")" -eq 0 ]; then
	doctor narrow bash -c 'ulimit -v 4000000; exec "$@"' bash || fail "narrow: $(cat narrow.json)"
	expect "4 GB of addresses: status" $status 1
	expect_finding narrow addresses limited "3906 MiB (RLIMIT_AS)" "ulimit -v"
	expect_finding narrow soft absent "a program that was started was not recorded"
fi
expect_finding own soft fine "branches of a program that was started were recorded"
again both filtered "$python" ask.py filter
expect "under a filter: status" $status 1
expect_finding filtered breakpoints absent "EPERM, and we are under a seccomp filter" "in the filter"
expect_finding filtered membarrier limited "EPERM, and we are under a seccomp filter" "in the filter"
expect_finding filtered seccomp limited "under a filter"

# A file that is not there, and one of another build.
WAYMARK_AGENT=/nowhere/agent.so doctor lost || fail "lost: $(cat lost.json)"
expect "no agent: status" $status 1
expect_finding lost agent absent "/nowhere/agent.so" WAYMARK_AGENT
expect_finding lost preload absent "not found"
mkdir -m 755 open
mkdir -m 755 open/waymark
XDG_RUNTIME_DIR=$folder/open doctor open || fail "open: $(cat open.json)"
expect "a folder of sockets that all may enter: status" $status 1
expect_finding open sockets absent "$folder/open/waymark" 0700

# An ordinary user, whose answers are others.
user=()
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && setpriv --reuid 65534 --clear-groups "$python" -c ""; then
	user=(env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --regid 65534 --clear-groups)
	again both ordinary "${user[@]}"
	expect_finding ordinary capabilities limited "none of those" setcap
	expect_finding ordinary "programs of others" limited "0 of" CAP_SYS_PTRACE
	ordinary_few()
	{
		both ordinary-few "${user[@]}" "$python" ask.py hold 2 inherit &&
			finding ordinary-few breakpoints limited "2 of the processor's 4 can be had"
	}
	again ordinary_few
	# registers of a processor are taken from all threads
	taken()
	{
		local held ended
		coproc hold { exec "$python" ask.py hold 2 0; }
		read -r held <&"${hold[0]}"
		[ "$held" = 2 ] && both taken &&
			finding taken breakpoints limited "2 of the processor's 4 can be had"
		ended=$?
		stop
		return $ended
	}
	again taken
fi

# ---- what is printed ----

"$waymark" doctor >out 2>err
expect "printed: status" $? "$("$python" -c 'import json; print(int(not json.load(open("own.json"))["works"]))')"
grep -qE '^  (fine|limited|absent) +breakpoints +[0-9]' out || fail "printed: $(cat out)"
for wrong in "-p" "-p x" "-p 0" "--no-such-option" "more"; do
	# shellcheck disable=SC2086 # words
	"$waymark" doctor $wrong >out 2>err
	expect "waymark doctor $wrong: status" $? 2
	grep -q 'waymark doctor --help' err || fail "waymark doctor $wrong: $(cat err)"
done
"$waymark" doctor -p 4194303 >out 2>err
expect "no such process: status" $? 1
grep -q 'No such process: pid 4194303' err || fail "no such process: $(cat err)"
if [ -w /dev/full ]; then
	"$waymark" doctor >/dev/full 2>err
	expect "a full disk: status" $? 1
fi

# ---- processes ----

children=()
trap 'kill -9 "${children[@]}" 2>/dev/null; wait "${children[@]}" 2>/dev/null; rm -rf "$folder"' EXIT

# start CMD...: in the background, past its start; its pid in $pid
start()
{
	"$@" &
	pid=$!
	children+=("$pid")
	sleep 0.5
}

# process NAME PID [COMMAND...]
process()
{
	local name=$1 of=$2
	shift 2
	timeout -k 5 30 "$@" "$waymark" doctor -p "$of" --json >"$name.json" 2>"$name.err"
	status=$?
	[ ! -s "$name.err" ] || fail "$name: $(cat "$name.err")"
}

# what would differ if it had been stopped, or written to
state_of()
{
	cat "/proc/$1/maps"
	grep -E '^(State|TracerPid|Threads|SigP|SigB|SigI|SigC|Shd|nonvoluntary|voluntary|Rss)' "/proc/$1/status"
}

start sleep 600
state_of $pid >before
process plain $pid
expect "a plain program: status" $status 0
state_of $pid >after
diff before after || fail "a plain program was touched"
for way in "markers and probes" trail/soft/ trail/step/ "watches from outside" "watches from inside" altogether; do
	finding plain "$way" fine "" >/dev/null 2>&1 || expect_finding plain "$way" limited ""
done
expect_finding plain "C library" fine glibc
# what it says can be done can be
timeout -k 5 60 "$waymark" record -p $pid -e func:nanosleep -o told.trace --for 1s >out 2>&1
expect "what can be recorded is" $? 0
process entered $pid
expect_finding entered agent fine "it has one"
kill -STOP $pid
for _ in $(seq 100); do
	grep -q '^State:.T' "/proc/$pid/status" && break
	sleep 0.05
done
process stopped $pid
expect_finding stopped "markers and probes" absent "the process is stopped" SIGCONT
kill -CONT $pid

coproc hold { exec "$python" ask.py trace $pid; }
read -r held <&"${hold[0]}"
expect "to trace it" "$held" 0
process traced $pid
expect_finding traced tracer limited "process $hold_PID (python3" "detach"
expect_finding traced "markers and probes" absent "process $hold_PID (python3" "detach"
expect_finding traced trail/soft/ absent "process $hold_PID (python3"
expect_finding traced "watches from outside" "$(grep -q '4 of 4 registers' traced.json && echo fine || echo limited)" "of 4 registers"
expect "one that is traced: status" $status 0
stop

if echo '#include <unistd.h>
int main(void) { return pause(); }' | cc -static -x c - -o static 2>/dev/null; then
	start ./static
	process static $pid
	expect "a static program: status" $status 0
	expect_finding static "markers and probes" absent "statically linked" "libwaymark-agent.a"
	expect_finding static "watches from inside" absent "which it can't have"
	expect_finding static trail/soft/ fine "-e trail/soft/"
	expect_finding static altogether limited "trail/soft/"
fi
start "$python" ask.py filter sleep 600
process sealed $pid
expect_finding sealed seccomp limited "it is under a filter" "waymark record"
expect_finding sealed "markers and probes" absent "seccomp filter"
expect_finding sealed trail/soft/ absent "seccomp filter"
expect_finding sealed trail/step/ fine ""
if [ ${#user[@]} -gt 0 ]; then
	start sleep 600
	process others $pid "${user[@]}"
	expect "another user's: status" $status 1
	expect_finding others rights absent "it runs as user 0, we as user 65534"
	expect_finding others files unknown "/proc/$pid/root/: EACCES"
	expect_finding others "watches from outside" absent "EACCES"
	expect_finding others altogether absent "it can't be recorded"
	if cc -x c -o privileged - <<<'#include <unistd.h>
int main(void) { return pause(); }' && chown 65534 privileged && chmod 4755 privileged; then
		start ./privileged
		process privileged $pid
		expect_finding privileged rights limited "it gained rights when it was started" "as root"
		process kept $pid "${user[@]}"
		expect_finding kept rights absent "Operation not permitted"
	fi
	if unshare --mount true 2>/dev/null; then
		start unshare --mount sleep 600
		process apart $pid
		expect_finding apart files fine "it sees others than we, as in a container; the agent's is among them"
		expect_finding apart "markers and probes" fine ""
	fi
	if "${user[@]}" unshare --user --map-root-user true 2>/dev/null; then
		start "${user[@]}" unshare --user --map-root-user sleep 600
		process unknown $pid
		expect_finding unknown files absent "in which user 0 is nobody" "the user that it runs as"
		expect_finding unknown "markers and probes" absent "user 0 is nobody there"
	fi
	process kernels 2
	expect "the kernel's own: status" $status 1
	expect_finding kernels program absent "it is the kernel's"
fi
exit $failed
