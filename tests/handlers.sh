#!/bin/bash
# SPDX-License-Identifier: MIT
# Handlers from outside: they judge each hit as their code says, in each way that a program continues or
# ends; and whatever is wrong with one is said by name and leaves the program alone.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
build_target handled.c

# handler NAME [COMPILER [OPTION]...]: its source, without the header's line, comes on stdin
handler()
{
	local compiler=${2:-cc} name=$1 language=c

	[ "$compiler" = cc ] || language=c++
	{ echo '#include <waymark/handler.h>' && cat; } >"$name.c"
	"$compiler" "${@:3}" -Wall -Wextra -Werror -shared -fPIC -O2 -I"$source_dir/include" -o "$name.so" \
		-x "$language" "$name.c" || exit 1
}

# so_many WHAT DIR EVENT COUNT: events of that name
so_many()
{
	expect "$1: $3" "$(of_events "$2" "$3" name | wc -l)" "$4"
}

# is_loaded PID: an object of handlers is mapped there
is_loaded()
{
	grep -q waymark-handlers "/proc/$1/maps"
}

handler judge <<'END'
static int seen;
WM_MARKER_PROBE(shop, order, int, int, const char *)
{
	__atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
	if (arg2 % 5 == 0)
		WAYMARK(judge, fifth, arg1, seen, arg3);
	return arg2 % 3 == 0 && *arg3 == 'U' ? WM_RECORD : WM_REJECT;
}
WM_USDT_PROBE(shop, sent, long)
{
	return arg1 > 89 ? WM_RECORD : WM_REJECT;
}
WM_FUNC_PROBE(handled, place, long, int)
{
	return arg1 == 7 && arg2 >= 0 ? WM_RECORD : WM_REJECT;
}
WM_RETURN_PROBE(handled, place, long, long)
{
	return result < 0 && result == -arg1 && duration ? WM_RECORD : WM_REJECT;
}
END

# ---- each way, with eight threads: 100 rounds each ----

for way in plain:8 fork:16 exec:16; do
	threads=${way#*:}
	run 0 -o "${way%:*}" --wait-all --handler ./judge.so -- ./handled "${way%:*}" 8 100
	so_many "${way%:*}" "${way%:*}" shop:order $((threads * 17))
	so_many "${way%:*}" "${way%:*}" judge:fifth $((threads * 20))
	so_many "${way%:*}" "${way%:*}" shop:sent $((threads * 10))
	so_many "${way%:*}" "${way%:*}" handled:place $((threads * (1 + 9)))
	expect "${way%:*}: results" "$(of_events "${way%:*}" handled:place ret | sort -n | uniq -c | xargs)" \
		"$(for i in 99 88 77 66 55 44 33 22 11; do echo "$threads -$i"; done | xargs)"
done
# C++, and conditions: a handler is called for the hits for which they hold
handler second c++ -std=c++11 <<'END'
WM_MARKER_PROBE(shop, order, int, int, const char *)
{
	WAYMARK(second, called, arg2);
	return arg2 == 12 ? WM_REJECT : WM_RECORD;
}
END
run 0 -o conditions -e 'shop:order/if=round>=10,if=round<20/' --handler ./second.so -- ./handled plain 2 100
so_many conditions conditions second:called 20
so_many conditions conditions shop:order 18
says '182 hits were rejected by conditions or handlers'
run 0 -o sums -e 'shop:order/count,if=round<20/' --handler ./second.so -- ./handled plain 2 100
grep -q '^ *38  *shop:order' out || fail "counts: $(cat out)"

# A handler that calls the function that it is at.
handler recursive <<'END'
#include <stdlib.h>
WM_FUNC_PROBE(libc, malloc, size_t)
{
	void *volatile more = malloc(777);

	free(more);
	return arg1 == 777 ? WM_RECORD : WM_REJECT;
}
END
run 0 -o recursive --handler ./recursive.so -- ./handled plain 2 100
so_many recursive recursive libc:malloc 200

# A function that returns nothing, as libc's headers say, has a return all the same.
handler returns <<'END'
WM_RETURN_PROBE(libc, free, long, void *)
{
	return arg1 && duration ? WM_RECORD : WM_REJECT;
}
END
run 0 -o returns --handler ./returns.so -- ./handled plain 2 100
[ "$(of_events returns libc:free name | wc -l)" -ge 200 ] || fail "no returns of free: $(cat words)"

# A large object behind one that takes long to load.
handler slow <<'END'
#include <unistd.h>
static __attribute__((constructor)) void begin(void)
{
	sleep(2); /* longer than the tool waits for an answer */
}
WM_MARKER_PROBE(shop, order, int, int, const char *) { return WM_RECORD; }
END
handler large <<'END'
char large[2000000] = { 1 };
WM_FUNC_PROBE(handled, place, long) { return WM_RECORD; }
END
run 0 -o slow --handler ./slow.so --handler ./large.so -- ./handled plain 1 10
so_many slow slow shop:order 10
so_many slow slow handled:place 10

# ---- a running program: loaded, unloaded under load, again and again; two recorders at once ----

start ./handled serve 8
await_running $pid
for i in 1 2 3 4 5; do
	records "attached" --handler ./judge.so -p $pid
	! is_loaded $pid || fail "attach $i: it is still loaded"
done
begin_record -o first --handler ./judge.so -p $pid
await_event first judge:fifth
records second --handler ./second.so -p $pid
is_loaded $pid || fail "the first recorder's object went with the second's"
records_on first judge:fifth
end_record 0 INT
! is_loaded $pid || fail "two recorders: it is still loaded"
# the recorder is killed
begin_record -o killed --handler ./judge.so -p $pid
await_event killed judge:fifth
child_of "$recorder" waymark
kill -9 "$child"
end_record 137
goes_on $pid "after kill -9"
await ! is_loaded $pid || fail "the recorder was killed: it is still loaded"
! "$waymark" report killed 2>&1 | grep -qi damaged || fail "killed: $("$waymark" report killed)"

# ---- one that does not return, or faults ----

handler blocks <<'END'
#include <unistd.h>
WM_MARKER_PROBE(shop, order, int, int, const char *)
{
	if (arg1 == 3)
		pause();
	return WM_RECORD;
}
END
run 0 -o blocks --for 1s --handler ./blocks.so -p $pid
says "./blocks.so stays loaded in process $pid: a handler has not returned"
is_loaded $pid || fail "a thread is in what was unloaded"
goes_on $pid "a handler blocks"
so_many blocks blocks shop:late 0
[ "$(of_events blocks shop:order thread | sort -u | xargs)" = "0 1 2 4 5 6 7" ] ||
	fail "blocks: threads $(of_events blocks shop:order thread | sort -u | xargs)"
records "after" -e shop:order -p $pid
kill $pid

handler faults <<'END'
WM_MARKER_PROBE(shop, order, int, int, const char *)
{
	if (arg2 == 50)
		*(volatile int *)0 = 1;
	return WM_RECORD;
}
END
run 139 -o faults --handler ./faults.so -- ./handled plain 1 100
says "ended while the handler of shop:order of ./faults.so ran"
so_many faults faults shop:order 50
# at a thread's first hit
handler early <<'END'
WM_FUNC_PROBE(handled, place, long) { *(volatile int *)0 = 1; return WM_RECORD; }
END
run 139 -o early --handler ./early.so -- ./handled plain 8 100
says "ended while the handler of handled:place of ./early.so ran"

# ---- a result in place of a call ----

cat >replaced.c <<'END'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ran; /* calls of the functions below */
#define BODY() __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED)
#define APART __attribute__((noinline, noclone))
APART long number(long a, long b) { BODY(); return a * b; }
APART signed char small(int a) { BODY(); return (signed char)a; }
APART double real(double a, int b) { BODY(); return a + b; }
APART float single(float a) { BODY(); return a; }
APART const char *text(const char *a) { BODY(); return a; }
APART void nothing(int a) { BODY(); __asm__ volatile("" : : "r"(a)); }
APART int deep(int a, char *way)
{
	char room[256];

	BODY();
	snprintf(room, sizeof room, "%d", a);
	strcat(way, room);
	return a ? deep(a - 1, way) + 1 : 0;
}
struct five { long all[5]; };
APART struct five large(long a) { BODY(); return (struct five){ { a } }; }
struct two { long all[2]; };
APART struct two pair(long a) { BODY(); return (struct two){ { a, a } }; }
APART long double wide(long a) { BODY(); return a; }
/* a tail call: number() returns to the caller of this one */
APART long tail(long a) { BODY(); return number(a, a + 1); }

static void check(int is_right, const char *what, int round)
{
	if (is_right)
		return;
	printf("wrong: %s, round %d\n", what, round);
	exit(1);
}

static int is_plain;
static int is_replaced(int round)
{
	return round % 4 == 1 && !is_plain;
}

static void *run(void *rounds)
{
	for (int i = 1; i <= *(int *)rounds; i++) {
		char way[64] = "";
		long before = atol("77"); /* in %rax: nothing() leaves that alone, so its caller relies on it */

		nothing(i);
		check(before == 77, "nothing has no result", i);
		check(large(i).all[0] == i && pair(i).all[1] == i && wide(i) == i, "struct", i);
		check(number(i, 3) == (is_replaced(i) ? -i : 3L * i), "number", i);
		check(small(i) == (is_replaced(i) ? -7 : (signed char)i), "small", i);
		check(real(i, 2) == (is_replaced(i) ? 0.25 : i + 2), "real", i);
		check(single((float)i) == (is_replaced(i) ? 1.5f : (float)i), "single", i);
		check(!strcmp(text("own"), is_replaced(i) ? "other" : "own"), "text", i);
		check(tail(i) == (is_replaced(i) ? -i : (long)i * (i + 1)), "tail", i);
		check(deep(3, way) == 3 && !strcmp(way, "3210"), "deep", i);
		check(is_plain || (deep(9, way) == 90 && !strcmp(way, "3210")), "deep is replaced", i);
		check(access((char *)8, F_OK) == -1 && errno == EFAULT, "unreadable", i);
		errno = 5;
		check(access("/", F_OK) == (is_replaced(i) ? -1 : 0), "access", i);
		check(errno == (is_replaced(i) ? ENOSPC : 5), "errno", i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = atoi(argv[1]), status = 0;
	pthread_t all[8];
	pid_t child;

	is_plain = argc == 2;
	for (int i = 0; i < 8; i++)
		pthread_create(&all[i], NULL, run, &rounds);
	for (int i = 0; i < 8; i++)
		pthread_join(all[i], NULL);
	printf("%d ran\n", ran);
	fflush(stdout);
	child = argc > 2 ? fork() : 0;
	if (!child && argc > 2) {
		run(&rounds);
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status != 0 : 0;
}
END
handler replaces <<'END'
#include <errno.h>
#include <string.h>
static __thread int rounds __attribute__((tls_model("initial-exec")));
WM_FUNC_REPLACE(replaced, number, long, long, long)
{
	rounds = (int)arg1;
	*result = -arg1;
	return arg1 % 4 == 1 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, small, signed char, int)
{
	*result = -7;
	return arg1 % 4 == 1 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, real, double, double, int)
{
	*result = 0.25;
	return (int)arg1 % 4 == 1 && arg2 == 2 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, single, float, float)
{
	*result = 1.5f;
	return (int)arg1 % 4 == 1 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, text, const char *, const char *)
{
	*result = "other";
	return rounds % 4 == 1 && !strcmp(arg1, "own") ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, nothing, long, int)
{
	return arg1 % 4 == 1 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(replaced, deep, int, int)
{
	*result = 90;
	return arg1 == 9 ? WM_REPLACE : WM_CALL;
}
WM_FUNC_REPLACE(libc, access, int, const char *)
{
	errno = ENOSPC;
	*result = -1;
	return rounds % 4 == 1 && arg1 && arg1[0] == '/' ? WM_REPLACE : WM_CALL;
}
END
handler structs <<'END'
WM_FUNC_REPLACE(replaced, large, long, long) { return WM_REPLACE; }
WM_FUNC_REPLACE(replaced, pair, long, long) { return WM_REPLACE; }
WM_FUNC_REPLACE(replaced, wide, double, long) { return WM_REPLACE; }
WM_FUNC_REPLACE(replaced, number, double, long, long) { return WM_REPLACE; }
WM_FUNC_REPLACE(replaced, real, long, double) { return WM_REPLACE; }
END
# 25 of 100 rounds are replaced, in 8 threads and the child; deep() in all
for level in -O2 -O0; do
	cc "$level" -g -Wall -Werror -o replaced replaced.c -lpthread || exit 1
	run 0 -o "instead$level" --handler ./replaces.so -- ./replaced 100 fork
	expect "$level: calls that ran" "$(grep ' ran$' out)" "$((8 * (75 * 7 + 100 * (3 + 1 + 4)))) ran"
	for name in replaced:number:50 replaced:small:25 replaced:real:25 replaced:single:25 replaced:text:25 \
		replaced:nothing:25 replaced:deep:100 libc:access:25; do
		so_many "$level" "instead$level" "${name%:*}:replaced" $((9 * ${name##*:}))
	done
	expect "$level: results" "$(of_events "instead$level" replaced:number:replaced ret | sort -n | head -n 1)" -97
	# results that are elsewhere than the handler's type
	run 1 -o "structs$level" --handler ./structs.so -- ./replaced 1
	says "5 of 5 places were refused"
	expect "$level: structs" "$(cat out)" "$((8 * 15)) ran"
done
# without debug information the handler's types are all that is known
handler bare <<'END'
WM_FUNC_REPLACE(replaced, number, long, long, long)
{
	*result = arg1 * arg2;
	return WM_REPLACE;
}
WM_FUNC_REPLACE(replaced, small, signed char, int)
{
	*result = (signed char)arg1;
	return WM_REPLACE;
}
END
strip -g replaced
run 0 -o bare --handler ./bare.so -- ./replaced 200
expect "bare" "$(cat out)" "$((8 * 200 * 12)) ran"
so_many bare bare replaced:small:replaced $((8 * 200))
# gcc has made it a function without a result, which only its name still says
cat >dropped.c <<'END'
#include <stdlib.h>
static __attribute__((noinline)) long dropped(long a, long b)
{
	__asm__ volatile(".nops 16" : : "r"(a), "r"(b));
	return a * b;
}
int main(int argc, char **argv)
{
	long before = atol("77");

	(void)dropped((long)argv, argc);
	return before != 77;
}
END
cc -O2 -o dropped dropped.c || exit 1
if [ -n "$(nm dropped | grep ' dropped\.')" ]; then
	handler drops <<<'WM_FUNC_REPLACE(dropped, dropped, long, long) { return WM_REPLACE; }'
	run 1 -o drops --handler ./drops.so -- ./dropped
	says "1 of 1 places were refused"
fi

# ---- what is refused before anything is loaded ----

start ./handled serve 1
await_running $pid
echo 'this is no ELF file' >text.so
handler none <<'END'
int nothing;
END
handler mistyped <<'END'
WM_MARKER_PROBE(shop, order, long, int, const char *) { return WM_RECORD; }
END
handler argument <<'END'
WM_FUNC_PROBE(handled, place, long, double) { return WM_RECORD; }
END
handler usdt <<'END'
WM_USDT_PROBE(shop, sent, int) { return WM_RECORD; }
END
handler twice <<'END'
WM_FUNC_PROBE(any, place, long) { return WM_RECORD; }
END
handler undefined <<'END'
int nowhere(void);
WM_MARKER_PROBE(shop, order, int, int, const char *) { return nowhere(); }
END
handler absent <<'END'
WM_MARKER_PROBE(shop, ordr, int) { return WM_RECORD; }
END
for target in "-p $pid" "-- ./handled plain 1 5"; do
	# shellcheck disable=SC2086 # words
	for case in "text|this is no ELF program" "none|./none.so: it has no handlers" \
		"mistyped|the handler has (i64, i32, str), and $folder/handled has (i32, i32, str)" \
		"argument|place: the handler has (i64, f64), and $folder/handled has (i64, i32)" \
		"usdt|shop:sent: the handler has (i32), and $folder/handled has (i64)" \
		"undefined|undefined symbol: nowhere"; do
		run 1 -o trace --for 1s --handler "./${case%%|*}.so" $target
		says "${case#*|}"
		rm -rf trace
	done
done
# a program that is executed later, beside one that is recorded
cp handled other
run 1 --json -o trace --handler ./mistyped.so -- sh -c './other plain 1 5; :'
says "other: the shared object can't be used as handlers: ./mistyped.so: shop:order: the handler has"
rm -rf trace
run 1 -o trace --handler ./absent.so -p $pid
says "shop:ordr"
rm -rf trace
run 1 -o trace --handler ./twice.so --handler ./twice.so -p $pid
says "place has two handlers"
rm -rf trace
run 1 -o trace --handler ./nowhere.so -p $pid
says "No such file or directory: ./nowhere.so"
! is_loaded $pid || fail "something was loaded"
goes_on $pid "after all that was refused"
# ---- by the API ----

cat >api.c <<'END'
#include <errno.h>
#include <stdio.h>
#include <waymark/error.h>
#include <waymark/session.h>

int main(int argc, char **argv)
{
	struct wm_session *session;
	int error = wm_session_open(&session, NULL);

	(void)argc;
	if (error || wm_session_handler_add(session, "./none.so") != -WM_E_HANDLER ||
	    wm_session_handler_add(session, "./nowhere.so") != -ENOENT ||
	    wm_session_handler_add(session, NULL) != -EINVAL ||
	    wm_session_handler_add(NULL, "./judge.so") != -EINVAL)
		return 2;
	error = wm_session_handler_add(session, "./judge.so");
	if (!error && wm_session_launch(session, argv + 1) < 0)
		return 3;
	if (!error)
		error = wm_session_output(session, "api.trace");
	if (!error)
		error = wm_session_start(session);
	if (!error && wm_session_handler_add(session, "./second.so") != -EBUSY)
		return 4;
	while (!error && (error = wm_session_wait(session, -1)) > 0)
		error = 0;
	if (!error)
		error = wm_session_stop(session);
	if (error)
		fprintf(stderr, "%s: %s\n", wm_error_text(error), wm_session_detail(session));
	wm_session_close(session);
	return error != 0;
}
END
cc -Wall -Werror -I"$source_dir/include" -o api api.c "$WAYMARK_BUILD/libwaymark.so" \
	-Wl,-rpath,"$WAYMARK_BUILD" || exit 1
timeout 60 ./api ./handled plain 8 100
expect "the API: status" $? 0
so_many "the API" api.trace shop:order $((8 * 17))
so_many "the API" api.trace judge:fifth $((8 * 20))

# wrong types are an error at compile time
printf '#include <waymark/handler.h>\nstruct s { int all[4]; };\nWM_FUNC_PROBE(any, f, struct s) { return WM_RECORD; }\n' >wrong.c
! cc -fPIC -shared -I"$source_dir/include" -o wrong.so wrong.c 2>words || fail "a structure compiles as an argument"
says "t be an argument of a handler"
exit $failed
