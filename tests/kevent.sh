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
g++ -std=c++17 -pedantic-errors -Wall -Wextra -Werror "$source_dir/tests/targets/library/plus.cc" \
	-o plus "${flags[@]}" || fail "it does not compile as C++17"
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
build_target library/stored.c
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
