#!/bin/bash
# SPDX-License-Identifier: MIT
# Code that changes under the software engine: written, mapped over, moved, read in, shared, on the stack; and programs that make
# code as they run, where they are there. All print what they print natively; also where all translations are given up over
# and over (ENGINE_LOAD_CACHE).
# shellcheck source=tests/engine_setup.bash
. "$(dirname "$0")/engine_setup.bash"

# same WHAT PROGRAM ARGUMENT...
same()
{
	local what=$1
	shift
	timeout -k 5 60 "$load" --native "$@" >native 2>words
	echo "status $?" >>native
	timeout -k 5 120 "$load" "$engine" "$@" >engine 2>words
	echo "status $?" >>engine
	cmp -s native engine || fail "$what: $(diff native engine | head -5; tail -3 words)"
}

for name in written protected mapped shared aliased read beside itself stack heap forked apart regions threads faults crowded constant \
	lent signalled; do
	same "code $name" "$WAYMARK_BUILD/tests/targets/engine/engine-code" "$name"
done

same "written at another address" "$WAYMARK_BUILD/tests/targets/engine/engine-twofold"

for name in missing shared batches protected removed signals vanished announced; do
	same "pages by userfaultfd(2): $name" "$WAYMARK_BUILD/tests/targets/engine/engine-fed" "$name"
done

cat >made.js <<'JS'
let sum = 0;
for (let i = 0; i < 200; i++) {
	const made = new Function('x', 'return x * ' + i + ' + ' + 3 * i);
	for (let k = 0; k < 200; k++)
		sum = (sum + made(k)) % 1000007;
}
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
console.log(sum, fib(22));
JS
cat >Made.java <<'JAVA'
public class Made {
	static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	public static void main(String[] values) {
		int met = 0;
		for (int i = 0; i < 500; i++)
			try {
				Object what = i % 2 == 0 ? null : "x";
				met += what.hashCode() % 7;
			} catch (NullPointerException e) {
				met++;
			}
		System.out.println(fib(25) + " " + met);
	}
}
JAVA
cat >beside.c <<'END'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int status;
static int code(void) { return 3; }
int main(void)
{
	pid_t child = fork();
	if (!child) _exit(code());
	usleep(20000 + code());
	printf("%d %d", waitpid(child, &status, 0) == child, WEXITSTATUS(status));
	return 0;
}
END
command -v tcc >/dev/null && same tcc tcc -run beside.c
command -v node >/dev/null && same node node made.js
command -v javac >/dev/null && javac -d . Made.java 2>words && same java java -cp . Made

export ENGINE_LOAD_FAR=1
same "code, the map far" "$WAYMARK_BUILD/tests/targets/engine/engine-code"
cc -fsanitize=address -o shadow "$source_dir/tests/targets/watch/exchange.c" 2>words &&
	same "a sanitizer's program" ./shadow
unset ENGINE_LOAD_FAR

export ENGINE_LOAD_CACHE=4000000
same "code, given up" "$WAYMARK_BUILD/tests/targets/engine/engine-code"
command -v node >/dev/null && same "node, given up" node made.js
exit $failed
