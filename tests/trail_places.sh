#!/bin/bash
# SPDX-License-Identifier: MIT
# Trails of programs where one module takes another one's place: by an exec, and by loading. Each half has its own
# functions, lines and sums. Then what is said of trails that were deleted.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

waymark=$WAYMARK_BUILD/cli/waymark

# has FILE TEXT...
has()
{
	local file=$1
	shift
	for text; do
		grep -qE -- "$text" "$file" || fail "expected '$text' in $file: $(head -40 "$file")"
	done
}

# shown STATUS ARGUMENT...: waymark, what it prints in ./out and ./words
shown()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "$*: status $got, expected $wanted: $(cat words)"
}

command -v cc >/dev/null || skip "no C compiler"
flags=(-O1 -g -ffreestanding -fno-stack-protector -nostdlib '-Wl,--build-id')

cat >work.h <<'END'
static long call(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}
END
# Not PIE: both lie at one address.
cat >program.c <<'END'
#include "work.h"
__attribute__((noinline, noclone)) void WORK(int n)
{
	for (volatile int i = 0; i < n; i++)
		;
}

void _start(void)
{
	WORK(TURNS);
#ifdef NEXT
	static char *args[] = { NEXT, 0 };
	call(59, (long)NEXT, (long)args, 0, 0, 0, 0);
#endif
	call(231, 7, 0, 0, 0, 0, 0);
	for (;;)
		;
}
END
cp program.c late.c
if ! cc "${flags[@]}" -static -no-pie -DWORK=works_early -DTURNS=5 "-DNEXT=\"$folder/late\"" program.c -o early ||
	! cc "${flags[@]}" -static -no-pie -DWORK=works_late -DTURNS=9 late.c -o late; then
	skip "no static program can be built"
fi

timeout -k 5 60 "$waymark" record -e trail/step/ -o went -- ./early >record.out 2>record.words
[ -e went/metadata ] || { cat record.words; skip "it can't be recorded here"; }
shown 0 trail --functions went
has out 'works_early \[early\]' 'works_late \[late\]'
shown 0 trail --branches -n 0 went
has out 'works_early\+.* program\.c:' 'works_late\+.* late\.c:'
shown 0 trail --calls -n 0 went
has out 'works_early \[early\] from .*program\.c:' 'works_late \[late\] from .*late\.c:'
shown 0 coverage went
has out 'FNDA:1,works_early' 'FNDA:1,works_late'
# the loop's line: 5 turns here, 9 there
for turns in program.c=5 late.c=9; do
	sed -n "/SF:.*\/${turns%=*}/,/^end_of_record/p" out | grep -qE "^DA:4,${turns#*=}\$" ||
		fail "turns of the loops: $(grep -E '^(SF|DA:4,)' out)"
done
shown 0 export --format perf-script went
has out 'r-xp .*/early$' 'r-xp .*/late$'
[ "$(grep -n 'r-xp .*/late$' out | cut -d: -f1)" -gt "$(grep -n '/P/' out | head -1 | cut -d: -f1)" ] ||
	fail "late is mapped before early has run: $(cat out)"
shown 0 export --format folded went
has out 'works_early 1?[0-9]+' 'works_late [0-9]+'
shown 0 export --format bolt went
[ "$(grep -c '^B' out)" -lt 12 ] || fail "branches of late as early's: $(cat out)"
shown 0 diff went went
shown 0 compress went
shown 0 trail --functions went
has out 'works_early \[early\]' 'works_late \[late\]'

# A library in another one's place, both by one descriptor after the other.
cat >plugin.c <<'END'
__attribute__((visibility("default"))) int WORK(int n)
{
	int sum = n;

	for (volatile int i = 0; i < n; i++)
		sum += i;
	return sum;
}
END
cat >loads.c <<'END'
#include "work.h"
#define AT 0x700000000000
static int run(const char *path)
{
	long fd = call(2, (long)path, 0, 0, 0, 0, 0);
	int sum;

	call(9, AT, 0x2000, 5, 0x12, fd, 0); /* PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED */
	call(3, fd, 0, 0, 0, 0, 0);
	sum = ((int (*)(int))(AT + ENTRY))(4);
	call(11, AT, 0x2000, 0, 0, 0, 0);
	return sum;
}

void _start(void)
{
	static const char *const paths[] = { FOLDER "/one.so", FOLDER "/two.so" };
	for (int i = 0; i < TIMES; i++)
		run(paths[i % 2]);
	call(231, 7, 0, 0, 0, 0, 0);
	for (;;)
		;
}
END
for name in one two; do
	cc "${flags[@]}" -shared -fPIC -Wl,-z,noseparate-code -DWORK="$name" plugin.c -o "$name.so" ||
		skip "no library can be built"
done
entry=$(nm one.so | awk '$3 == "one" { print "0x" $1 }')
[ "$entry" = "$(nm two.so | awk '$3 == "two" { print "0x" $1 }')" ] || skip "the libraries differ"
cc "${flags[@]}" -static -no-pie -DTIMES=4 -DENTRY="$entry" "-DFOLDER=\"$folder\"" loads.c -o loads ||
	skip "no static program can be built"
timeout -k 5 60 "$waymark" record -e trail/step/ -o loaded -- ./loads >record.out 2>record.words
shown 0 trail --functions --json loaded
for name in one two; do
	has out "\"function\":\"$name\",\"linkage\":\"$name\",\"module\":\"$folder/$name.so\".*\"calls\":2,"
done
shown 0 coverage --module '*.so' loaded
has out 'FNDA:2,one' 'FNDA:2,two'

# ---- what is gone ----

pid=$(sed -n 's/.*process_0_pid = \([0-9]*\);.*/\1/p' loaded/metadata | head -1)
shown 0 report loaded
has out '^Trails +1 threads, [0-9]+ blocks$'
shown 0 report --json loaded
has out '"trails":\{"threads":1,"blocks":[0-9]+,"lost_places":0,.*"cut_threads":0,"damaged_threads":0\}'
for file in loaded/*-*-*; do
	case $file in
	*/"$pid-0-"*) ;;
	*) rm -f "$file" ;;
	esac
done
for what in trail report coverage; do
	shown 1 "$what" loaded
	has words "a thread's trail that it tells of is not there"
done
shown 1 report loaded
has out 'the trails of 1 threads are damaged or gone'
shown 2 diff loaded went
exit $failed
