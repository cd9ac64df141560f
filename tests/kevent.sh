#!/bin/bash
# SPDX-License-Identifier: MIT
# Event objects by what is installed alone: the header in C and C++, the library, the example; as who runs this, and as an
# ordinary user.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"
# shellcheck source=tests/cpus_setup.bash
. "$source_dir/tests/cpus_setup.bash"

# shellcheck source=tests/install_setup.bash
. "$source_dir/tests/install_setup.bash"
read -ra flags <<<"$(pkg-config --cflags --libs waymark)"

# run PROGRAM ARGUMENT...: it says nothing, and ends well
run()
{
	timeout 60 "$@" >said 2>&1
	case $? in
	0) ;;
	77) skip "$(cat said)" ;;
	*) fail "$1: $(cat said)" ;;
	esac
}

gcc -std=gnu11 -Wall -Wextra -Werror "$source_dir"/tests/{kevent,failures}.c -o uses "${flags[@]}" -lpthread ||
	fail "it does not compile as C"
gcc -std=gnu11 -Wall -Wextra -Werror "$source_dir"/tests/{kevent_refused,failures}.c -o refused "${flags[@]}" ||
	fail "the test of bad arguments does not compile"
cat >plus.cc <<'CC'
#include <cerrno>
#include <waymark/list.h>
#include <waymark/session.h>
#include <waymark/trace.h>
#include <waymark/trail.h>
int main()
{
	wm_session_status session_status{};
	wm_trail_status trail_status{};
	wm_kevent_status event_status{};
	wm_kevent_source source{};
	wm_kevent_request request{};
	wm_kevent *object;
	wm_trace_options trace_options{};
	const wm_event *event;
	wm_trace *trace;
	uint64_t number;

	source.size = sizeof(source);
	source.kind = WM_KEVENT_KIND_EXECUTE;
	source.address = 1;
	request.size = sizeof(request);
	request.scope = WM_KEVENT_SCOPE_THREAD;
	request.pid = 1;
	request.sources = &source;
	request.source_count = 1;
	int err = wm_kevent_open(&object, &request);
	wm_kevent_close(object);
	err += session_status.size + trail_status.size + event_status.size;
	trace_options.size = sizeof(trace_options);
	err += wm_trace_open(&trace, "/nowhere", &trace_options) != -ENOENT;
	err += wm_trace_next(trace, &event) != -EINVAL;
	err += wm_event_field_u64(wm_event_field_find(event, "rows"), &number) != -ENOENT;
	wm_trace_close(trace);
	wm_list_place place{};
	auto take = [](const wm_list_place *, void *) { return 0; };
	err += wm_list_file("/nowhere", "usdt:*:*", take, nullptr) != -ENOENT;
	err += wm_list_process(0, "usdt:*:*", take, nullptr) != -EINVAL;
	err += place.size;
	return err;
}
CC
g++ -std=c++17 -pedantic-errors -Wall -Wextra -Werror plus.cc -o plus "${flags[@]}" || fail "it does not compile as C++17"
gcc -O2 -Wall -Wextra -Werror "$source_dir/examples/stores.c" -o stores "${flags[@]}" || fail "the example does not compile"
[ $failed -ne 0 ] || needs breakpoint-write breakpoint-access breakpoint-signal

run ./uses
run ./refused
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod -R a+rX . && run setpriv --reuid=65534 --regid=65534 --clear-groups ./uses
fi

# A CPU that comes later.
if why=$(cpus_trouble); then
	echo "without CPUs that come later: $why"
else
	one_cpu timeout 60 ./uses online >said 2>&1 || fail "CPUs that come later: $(cat said)"
fi

run ./plus

# The example, on a program whose word is stored to from one place by two threads.
cat >stored.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile long word;
static void *store(void *data)
{
	for (long i = 0; i < 100; i++)
		word = i;
	return data;
}
int main(void)
{
	pthread_t other;

	printf("%d %p\n", (int)getpid(), (void *)&word);
	fflush(stdout);
	getchar();
	pthread_create(&other, NULL, store, NULL);
	store(NULL);
	pthread_join(other, NULL);
	return 0;
}
C
gcc -O1 stored.c -o stored -lpthread
mkfifo in out
./stored <in >out &
exec 3>in 4<out
read -r pid address <&4
timeout 60 ./stores "$pid" "$address" >stores.out 2>stores.err &
# the ledger has it sooner than it is armed
await -s 60 grep -qs . stores.err || fail "the example sees no stores: $(cat stores.err)"
echo >&3
wait %1
wait %2
expect "the example's end" $? 0
expect "stores" "$(grep -c 0x stores.out)" 200
expect "places" "$(cut -d' ' -f2 stores.out | sort -u | wc -l)" 1
expect "threads" "$(cut -d' ' -f1 stores.out | sort -u | wc -l)" 2
exit $failed
