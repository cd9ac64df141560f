#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark doctor: its trials on this machine and with simulated failures, without permissions, with registers that others hold;
# its cache; and processes that can be recorded, or not.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark
table=$source_dir/target/trial/trial.def
! is_sanitized inside/libwaymark-agent.so ||
	skip "an agent built for a sanitizer can't be loaded into programs that are not"
chmod 755 .
cp "$source_dir"/tests/{doctor/place,filter}.py . && chmod 644 ./*.py
unset WAYMARK_SIMULATE # the cases choose what they simulate
export XDG_CACHE_HOME=$folder/cache
cache=$folder/cache/waymark/trials
# one that other users can run, too
python=/usr/bin/python3
[ -x $python ] || python=$(command -v python3)
filter=("$python" filter.py 298 324 --) # perf_event_open(2) and membarrier(2) are refused

# [of=PID] doctor NAME [COMMAND...]: its output in NAME.json, run by COMMAND; $status is its exit status, which the output confirms
doctor()
{
	local name=$1
	shift
	timeout -k 5 50 "$@" "$waymark" doctor ${of:+-p "$of"} --json >"$name.json" 2>"$name.err"
	status=$?
	[ ! -s "$name.err" ] || fail "$name: $(cat "$name.err")"
	"$python" -c 'import json, sys; sys.exit(int(not json.load(open(sys.argv[1]))["works"]))' "$name.json"
	expect "$name: status" $status $?
}

# finding FILE NAME STATE... WORDS [CHANGE]: it has one of these states ("fine|limited"), and these words
finding()
{
	"$python" - "$@" <<-'END'
		import json, sys
		file, name, states, words, *change = sys.argv[1:]
		finding, = [f for f in json.load(open(file + ".json"))["check"] if f["name"] == name]
		if finding["state"] not in states.split("|") or words not in finding["found"] or \
		   any(c not in (finding["change"] or "") for c in change):
		    sys.exit(f"{finding}, expected {sys.argv[3:]}")
	END
}

expect_finding()
{
	local words
	words=$(finding "$@" 2>&1) || fail "$1: $2: $words"
}

# again CHECK...: until it holds; other tests may hold registers of a CPU for a moment
again()
{
	local try before=$failed
	for try in 1 2 3 4 5 6 7 8; do
		failed=$before
		"$@" >again.out 2>&1 && [ $failed = "$before" ] && return
		sleep "$try"
	done
	fail "$*: $(cat again.out)"
}

# has TRIAL...: whether these work here; else it prints why not
has() { (needs "$@"); }

# ---- this machine ----

doctor own
"$python" - "$table" >wrong 2>&1 <<-'END' || fail "own: $(cat wrong)"
	import json, os, re, sys
	own = json.load(open("own.json"))
	found = {f["name"]: f for f in own["check"]}
	assert len(found) == len(own["check"]), "a name twice"
	assert own["trials_ns"] > 0 and own["uid"] == os.getuid()
	trials = re.findall(r'^X\([A-Z0-9_]+, "([^"]+)"', open(sys.argv[1]).read(), re.M)
	assert len(trials) > 20 and not set(trials) - set(found), set(trials) - set(found)
	def text(path):
	    return open(path, encoding="ascii").read().split()
	sources = text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
	assert (found["tsc-trusted"]["state"] == "fine") == ("tsc" in sources), (sources, found["tsc-trusted"])
END
expect_finding own soft fine "a program was recorded"
expect_finding own preload fine "a program was started with the agent"

# ---- simulated failures ----

simulated()
{
	WAYMARK_SIMULATE=$1 doctor "$1"
	finding "$1" "$2" "$3" "" && ! WAYMARK_SIMULATE=$1 "$waymark" doctor "$2"
}

# simulate FAILURE TRIAL STATE
simulate()
{
	! has "$2" || again simulated "$@"
}

simulate debug-registers breakpoint-write absent
simulate debug-registers breakpoint-access absent
simulate debug-registers breakpoint-execute absent
simulate debug-registers breakpoint-signal limited
simulate debug-registers breakpoint-cpu absent
simulate int80 int80 limited
simulate tsc tsc-trusted limited
[ "$(nproc)" -eq 1 ] || simulate tsc tsc-agrees "limited|unknown" # unknown: the machine is too busy
if has breakpoint-write; then
	expect_finding debug-registers breakpoints absent "breakpoint-write: the machine accepts" "record branches"
	expect "a basic failure: status" "$(WAYMARK_SIMULATE=debug-registers "$waymark" doctor >out; echo $?)" 1
	tail -n 1 out | grep -q 'breakpoint-write' || fail "a basic failure: $(tail -n 1 out)"
fi
WAYMARK_SIMULATE=hang doctor hang
for name in tsc-rate memfd breakpoint-write int80; do
	expect_finding hang $name unknown "timed out" again
done
expect_finding hang breakpoints "unknown|absent" ""

# ---- the cache ----

read -ra kept < <(sed -n 's/^X([A-Z0-9_]*, "\([^"]*\)", [a-z_0-9]*, 1,.*/\1/p' "$table" | tr '\n' ' ')
marked() { grep -o '(a mark)' "$1.json" | grep -c .; }
"$python" place.py mark "$cache" "" "" "${kept[@]}"
before=$(stat -c '%i %y %z' "$cache")
doctor cached
expect "what the cache keeps" "$(marked cached)" ${#kept[@]}
expect "a cache that is used" "$(stat -c '%i %y %z' "$cache")" "$before"
"$python" place.py mark "$cache" 00000000-0000-0000-0000-000000000000 "" "${kept[@]}"
doctor rebooted
expect "of a cache of another boot" "$(marked rebooted)" 0
grep -q "^boot $(cat /proc/sys/kernel/random/boot_id)" "$cache" || fail "the cache of another boot was kept"

# ---- without permissions, and in small places ----

env XDG_CACHE_HOME="$folder/nowhere" "${filter[@]}" true || skip "no seccomp filters here"
XDG_CACHE_HOME=$folder/nowhere doctor filtered "${filter[@]}"
expect "under a filter: status" $status 1
expect_finding filtered breakpoint-write unknown "EPERM; this process is under a seccomp filter" "in the filter"
expect_finding filtered breakpoints absent "EPERM" "in the filter"
expect_finding filtered perf-user absent "EPERM" "in the filter"
expect_finding filtered membarrier limited "EPERM" "in the filter"
expect_finding filtered code-change unknown "EPERM" "in the filter"
"$python" place.py mark "$cache" "" "" "${kept[@]}"
doctor filtered-later "${filter[@]}"
expect_finding filtered-later breakpoint-write unknown "not in this process: perf-user" "in the filter"
rm "$cache"

if has breakpoint-write; then
	few()
	{
		doctor few "$python" place.py hold 3
		finding few breakpoints limited "1 of the processor's 4 can be had; others hold 3" "end what holds them" &&
			finding few breakpoints limited python3
	}
	again few
	doctor none "$python" place.py hold 4
	expect_finding none breakpoints absent "0 of the processor's 4 can be had"
	XDG_CACHE_HOME=$folder/nowhere doctor held "$python" place.py hold 4
	expect_finding held breakpoint-write unknown ENOSPC "end the programs"
fi
doctor limited bash -c 'ulimit -n 100; exec "$@"' bash
expect_finding limited "open files" limited "100 (RLIMIT_NOFILE)" "ulimit -n"
# a command built for a sanitizer maps far more
if [ "$(nm "$waymark" | grep -cE "__(asan|tsan)_init")" -eq 0 ]; then
	doctor narrow bash -c 'ulimit -v 4000000; exec "$@"' bash
	expect "4 GB of addresses: status" $status 1
	expect_finding narrow addresses limited "3906 MiB (RLIMIT_AS)" "ulimit -v"
	expect_finding narrow soft absent "a program could not be recorded"
fi
WAYMARK_AGENT=/nowhere/agent.so doctor lost
expect "no agent: status" $status 1
expect_finding lost agent absent "/nowhere/agent.so" WAYMARK_AGENT
expect_finding lost preload absent "not found"
WAYMARK_AGENT=$WAYMARK_BUILD/record/doctor/other-release.so doctor other
expect_finding other agent limited 9.9.9 "install both from one build"
mkdir -m 755 open open/waymark
XDG_RUNTIME_DIR=$folder/open doctor open
expect_finding open sockets fine "/waymark" ""
! grep -q "$folder/open/waymark" open.json || fail "a folder of sockets that others can enter is used"

# An ordinary user, and a command that gained privileges.
user=()
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && setpriv --reuid 65534 --clear-groups "$python" -c ""; then
	user=(env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --regid 65534 --clear-groups)
	level=$(cat /proc/sys/kernel/perf_event_paranoid)
	doctor ordinary "${user[@]}"
	[ "$level" -lt 1 ] || expect_finding ordinary perf-cpu absent EACCES "sysctl kernel.perf_event_paranoid=0"
	[ "$level" -lt 1 ] || expect_finding ordinary breakpoint-cpu unknown "E" # ENOSPC where others hold all
	[ "$level" -lt 2 ] || expect_finding ordinary perf-kernel absent EACCES "sysctl kernel.perf_event_paranoid=1"
	expect_finding ordinary perf-user "$([ "$level" -lt 3 ] && echo fine || echo absent)" ""

	if "${user[@]}" unshare --user --map-root-user true 2>/dev/null; then
		doctor unshared "${user[@]}" unshare --user --map-root-user
		[ "$level" -lt 1 ] || expect_finding unshared perf-cpu absent EACCES "outside of this user namespace"
	fi

	"$waymark" doctor int80 >out
	cp -r cache theirs
	"$python" place.py mark theirs/waymark/trials "" 65534 "${kept[@]}"
	chown -R 65534 theirs
	export XDG_CACHE_HOME=$folder/theirs
	doctor theirs "${user[@]}"
	[ "$(marked theirs)" -gt 0 ] || fail "a user's own cache is not used"
	WAYMARK_SIMULATE=int80 doctor simulated "${user[@]}"
	cp "$waymark" privileged && chown 65534 privileged && chmod 4755 privileged
	WAYMARK_SIMULATE=int80 ./privileged doctor --json >secure.json
	if grep -q '"uid":65534' secure.json; then # no mount option forbids it
		expect "a privileged command's cache" "$(marked secure)" 0
		has int80 && expect_finding secure int80 fine "makes a system call"
		expect_finding simulated int80 limited ""
	fi
	export XDG_CACHE_HOME=$folder/cache
fi

# ---- what is printed ----

"$waymark" doctor >out
expect "printed: status" $? $((1 - $(tail -n 1 out | grep -c 'everything basic works here')))
WAYMARK_SIMULATE=int80 "$waymark" doctor --json tsc-trusted int80 >out
expect "trials: status" $? 1
"$python" - <<-'END' || fail "trials: $(cat out)"
	import json
	trusted, int80 = json.load(open("out"))["check"]
	assert trusted["name"] == "tsc-trusted" and trusted["found"]
	assert int80["name"] == "int80" and int80["state"] == "limited" and "(SIGSEGV)" in int80["found"]
END
WAYMARK_SIMULATE=int80 "$waymark" doctor int80 >out
expect "a trial: status" $? 1
grep -q 'limited  int80 .*(SIGSEGV)$' out || fail "a trial: $(cat out)"
for wrong in "-p" "-p x" "-p 0" "-p 1 int80" "--no-such-option" "no-such-trial"; do
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

has ptrace-user code-change || exit $failed
children=()
trap 'kill -9 "${children[@]}" 2>/dev/null; wait "${children[@]}" 2>/dev/null; rm -rf "$folder"' EXIT

# start COMMAND...: in the background, until it sleeps in the program that it executes; its pid in $pid
start()
{
	"$@" &
	pid=$!
	children+=("$pid")
	await sleeps "$pid" || fail "$*: it does not begin to sleep"
}

sleeps()
{
	grep -qsxE 'sleep|static|gained' "/proc/$1/comm" && has_state "$1" S
}

# what would differ if waymark had left something in it
state_of()
{
	cat "/proc/$1/maps"
	ls "/proc/$1/fd"
	grep -E '^(State|TracerPid|Threads|SigP|SigB|SigI|SigC|Shd|VmLck)' "/proc/$1/status"
}

start sleep 600
state_of $pid >before
of=$pid doctor plain
expect "a plain program: status" $status 0
state_of $pid >after
diff before after || fail "something is left in a plain program"
for way in "markers and probes" trail/soft/; do
	expect_finding plain "$way" fine "waymark record -p $pid"
done
has breakpoint-write && expect_finding plain "watches from outside" "fine|limited" "of the processor's 4"
has breakpoint-signal && expect_finding plain "watches from inside" "fine|limited" "waymark watch -p"
expect_finding plain summary "fine|limited" "it can be recorded in "
timeout -k 5 60 "$waymark" record -p $pid -e func:nanosleep -o probe.trace --for 1s >out 2>&1
expect "a way that doctor shows" $? 0
if has breakpoint-write; then
	WAYMARK_SIMULATE=debug-registers of=$pid doctor dead
	expect_finding dead "watches from outside" absent "breakpoint-write: the machine accepts" "record branches"
	expect_finding dead "watches from inside" absent ""
	expect_finding dead summary limited "it can be recorded in "
fi
kill -STOP $pid
await has_state $pid T || fail "a stopped process: it is not stopped"
of=$pid doctor stopped
expect_finding stopped "markers and probes" absent "the process is stopped" SIGCONT
kill -CONT $pid

coproc hold { exec "$python" place.py trace $pid; }
# shellcheck disable=SC2154 # coproc sets it
tracer=$hold_PID
read -r held <&"${hold[0]}"
expect "to trace it" "$held" 0
of=$pid doctor traced
expect_finding traced "markers and probes" absent "process $tracer (python3" "detach"
expect_finding traced trail/soft/ absent "process $tracer (python3"
kill "$tracer"

if echo '#include <unistd.h>
int main(void) { return pause(); }' | cc -static -x c - -o static 2>/dev/null; then
	start ./static
	of=$pid doctor static
	expect "a static program: status" $status 0
	expect_finding static "markers and probes" absent "statically linked" "libwaymark-agent.a"
	expect_finding static "watches from inside" absent "the agent, which cannot be loaded"
	expect_finding static trail/soft/ fine "-e trail/soft/"
	expect_finding static summary limited "it can be recorded in "
fi
start "${filter[@]}" sleep 600
of=$pid doctor sealed
expect_finding sealed "markers and probes" absent "seccomp filter" "waymark record"
expect_finding sealed trail/soft/ absent "seccomp filter"
[ ${#user[@]} -gt 0 ] || exit $failed

start sleep 600
of=$pid doctor others "${user[@]}"
expect "another user's: status" $status 1
expect_finding others "markers and probes" absent "it runs as user 0, we as user 65534"
expect_finding others "watches from outside" absent "EACCES"
expect_finding others summary absent "it cannot be recorded"
if cc -x c -o gained - <<<'#include <unistd.h>
int main(void) { return pause(); }' && chown 65534 gained && chmod 4755 gained; then
	start ./gained
	of=$pid doctor withheld "${user[@]}"
	expect_finding withheld "markers and probes" absent "Operation not permitted"
fi
if unshare --mount true 2>/dev/null; then
	start unshare --mount sleep 600
	of=$pid doctor apart
	expect_finding apart "markers and probes" fine ""
fi
# limited NAME OPTION WAY STATE WORDS: a process with that limit, and whether a recording says the
# same
limited()
{
	start prlimit "--$2" sleep 600
	of=$pid doctor "$1"
	expect_finding "$1" "$3" "$4" "$5"
	kill "$pid"
}
limited few_addresses as=80000000 "markers and probes" unknown "RLIMIT_AS"
limited few_addresses as=80000000 trail/soft/ absent "(RLIMIT_AS, ulimit -v), and"
limited little_data data=30000000 "markers and probes" unknown "RLIMIT_DATA"
limited little_data data=30000000 trail/soft/ absent "(RLIMIT_DATA, ulimit -d), and"
limited short_files fsize=1000000 "markers and probes" unknown "RLIMIT_FSIZE"
if unshare --mount true 2>/dev/null; then
	# shellcheck disable=SC2016 # for that shell
	within=(unshare --mount bash -c 'mount -t tmpfs -o "$1" none "$2" && exec sleep 600' -)
	start "${within[@]}" ro /tmp
	of=$pid doctor readonly
	expect_finding readonly "markers and probes" absent "Read-only file system"
	expect_finding readonly "watches from inside" absent "the agent, which cannot be loaded"
	start "${within[@]}" size=4k /proc
	of=$pid doctor no_proc
	expect_finding no_proc "markers and probes" limited "no /proc can be read"
	case $(realpath "$WAYMARK_BUILD") in
	/tmp/*) ;;
	*)
		# shellcheck disable=SC2016 # for that shell
		start unshare --mount bash -c 'mount -t tmpfs -o noexec none /tmp && mount -t tmpfs none "$1" && exec sleep 600' - "$WAYMARK_BUILD"
		of=$pid doctor noexec
		expect_finding noexec "markers and probes" absent "(noexec, SELinux)"
		;;
	esac
fi
if "${user[@]}" unshare --user --map-root-user true 2>/dev/null; then
	start "${user[@]}" unshare --user --map-root-user sleep 600
	of=$pid doctor unknown
	expect_finding unknown "markers and probes" absent "does not know user 0"
fi
of=2 doctor kernels
expect "a kernel thread: status" $status 1
expect_finding kernels program absent "it is the kernel's"
exit $failed
