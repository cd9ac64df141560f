#!/bin/bash
# SPDX-License-Identifier: MIT
# Who wrote may be in a library that was there before watching began: it is named as the program's own functions are, live and in the trace.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cat >helper.c <<'END'
void helper_write(volatile int *to, int value) { *to = value; }
END
cat >uses.c <<'END'
#include <sys/wait.h>
#include <unistd.h>
volatile int target;
extern void helper_write(volatile int *, int);
int main(int words, char **text)
{
	(void)text;
	do {
		helper_write(&target, 7);
		if (words > 1)
			usleep(10000);
	} while (words > 1);
	if (!fork()) {
		helper_write(&target, 8);
		_exit(0);
	}
	wait(0);
	return 0;
}
END
cc -g -O1 -shared -fPIC helper.c -o libhelper.so || exit 1
cc -g -O1 uses.c -o uses -L. -lhelper -Wl,-rpath,"$folder" || exit 1
chmod 755 .

# named WHAT TIMES: the table in ./out has so many lines of that writer
named() { expect "$1" "$(grep -c '  helper_write (helper.c:1)  *[78]$' out)" "$2"; }

# once FOLDER: the trace has each module once, the library among them
once()
{
	expect "$1: the library" "$(grep -c 'process_0_module_.*at .*/libhelper.so"' "$1/metadata")" 1
	expect "$1: twice" "$(sed -n 's/.*process_0_module_[0-9]* = //p' "$1/metadata" | sort | uniq -d)" ""
}

timeout -k 5 60 "$waymark" watch -t target ./uses >out 2>words || fail "launched: $(cat words)"
named "launched, and its child" 2
watches launched 0 -e watch:target -- ./uses
once launched

start ./uses on
await_running "$pid"
timeout -k 5 60 "$waymark" watch -t target --for 300ms -p "$pid" >out 2>words || fail "attached: $(cat words)"
named attached 1
watches attached 0 -e watch:target --for 300ms -p "$pid"
once attached
watches outside 0 -e watch:target/outside/ --for 300ms -p "$pid"
once outside
exit $failed
