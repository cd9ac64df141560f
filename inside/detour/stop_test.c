/* SPDX-License-Identifier: MIT */
/* Threads of all kinds while detours come and go. */
#include "inside/detour/testing/fixture.h"

#include "base/testing/await.h"
#include "inside/detour/janitor_process.h"
#include "inside/runtime/lock.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8

static void come_and_go_while_threads_run(const struct trial_wish *wish, long (*function)(long),
					  int stops)
{
	uint64_t longest_ns = 0, sum_ns = 0;
	struct detour_result result;
	union trial_record record;
	int rounds = 50;

	trial_begin();
	trial_compose(&record, wish);
	trial_runners_start(function, THREADS);
	for (int i = 0; i < rounds; i++) {
		cr_assert_eq(trial_place(&record), 0);
		cr_assert_eq(trial_commit(&result), 0);
		cr_assert_eq(result.markers, 1);
		cr_assert_eq(result.stopped_ns != 0, stops);
		sum_ns += result.stopped_ns;
		longest_ns = result.stopped_ns > longest_ns ? result.stopped_ns : longest_ns;
		cr_assert_eq(trial_let_go(), 0);
	}
	trial_runners_end();
	cr_log_info("stopped %lu us on average, %lu us at most", sum_ns / 1000 / (uint64_t)rounds,
		    longest_ns / 1000);
	cr_assert_arr_eq(trial_jump(wish), record.head.original, wish->insn_bytes);
}

Test(stop, byte_form_stops_no_thread, .timeout = 60)
{
	come_and_go_while_threads_run(&trial_victim_wish, trial_victim, 0);
}

Test(stop, first_form_changes_below_running_threads, .timeout = 60)
{
	come_and_go_while_threads_run(&trial_first_wish, trial_first, 1);
}

Test(stop, behind_form_changes_below_running_threads, .timeout = 60)
{
	come_and_go_while_threads_run(&trial_behind_wish, trial_behind, 1);
}

/* ---- a thread in the middle of an instruction ---- */

static int held, let_on;

#define LONG_BYTES (256L << 20)
#define LONG_PAGES ((size_t)LONG_BYTES / 4096)

static void *run_long(void *at)
{
	return (void *)trial_long(0, at, 0, LONG_BYTES);
}

/* trial_long() reads one page after another, and the kernel maps each page at its first access. */
static size_t pages_read(char *at)
{
	static unsigned char pages[LONG_PAGES];
	size_t count = 0;

	cr_assert_eq(mincore(at, LONG_BYTES, pages), 0);
	while (count < LONG_PAGES && pages[count] & 1)
		count++;
	return count;
}

static int has_read_more(char *at, size_t before)
{
	size_t now = pages_read(at);

	return now > before || now == LONG_PAGES;
}

Test(stop, thread_in_repeated_instruction_continues_in_trampoline)
{
	char *at = mmap(NULL, LONG_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	pthread_t thread;
	void *result;

	trial_begin();
	for (int i = 0; i < 5; i++) {
		size_t before;

		cr_assert_eq(madvise(at, LONG_BYTES, MADV_DONTNEED), 0);
		cr_assert_eq(pthread_create(&thread, NULL, run_long, at), 0);
		cr_assert(AWAIT(has_read_more(at, 0)), "the thread has not begun");
		trial_arm_detour(&trial_long_wish);
		before = pages_read(at);
		cr_assert(AWAIT(has_read_more(at, before)),
			  "the thread does not run in the trampoline");
		cr_assert_eq(trial_let_go(), 0, "a thread in the trampoline may stay there");
		cr_assert_eq(pthread_join(thread, &result), 0);
		cr_assert_eq(result, at + LONG_BYTES);
	}
	cr_assert_eq(trial_long(0, at, 0, 5), at + 5);
}

/* ---- sleepers ---- */

static int pipes[2], event_poll, futex_word;

/* Each sleeper stores its thread id just before it sleeps. */
static void will_sleep(void *tid)
{
	__atomic_store_n((pid_t *)tid, gettid(), __ATOMIC_RELEASE);
}

/* Whether it sleeps, or has slept already: two sleepers have a timeout. */
static int has_slept(const pid_t *tid)
{
	char path[64], state = 0;
	FILE *file;

	if (!__atomic_load_n(tid, __ATOMIC_ACQUIRE))
		return 0;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", *tid);
	file = fopen(path, "re");
	if (!file)
		return 1;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(file);
	return state == 'S' || state == 'X';
}

static void *sleep_in_epoll(void *data)
{
	struct epoll_event event;

	will_sleep(data);
	return (void *)(long)(epoll_wait(event_poll, &event, 1, -1) == 1 ? 0 : errno);
}

static void *sleep_in_read(void *data)
{
	char byte;

	will_sleep(data);
	return (void *)(long)(read(pipes[0], &byte, 1) == 1 ? 0 : errno);
}

static void *sleep_in_futex(void *data)
{
	will_sleep(data);
	while (!__atomic_load_n(&futex_word, __ATOMIC_ACQUIRE)) {
		if (syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, NULL) && errno != EAGAIN)
			return (void *)(long)errno;
	}
	return NULL;
}

static void *sleep_in_nanosleep(void *data)
{
	struct timespec wait = { .tv_nsec = 400000000 }, left;

	will_sleep(data);
	return (void *)(long)(nanosleep(&wait, &left) ? errno : 0);
}

static void *sleep_in_wait(void *data)
{
	sigset_t set;
	struct timespec wait = { .tv_nsec = 400000000 };

	will_sleep(data);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	/* EAGAIN: the time is over; EINTR would be ours */
	return (void *)(long)(sigtimedwait(&set, NULL, &wait) < 0 && errno == EAGAIN ? 0 : errno);
}

Test(stop, sleepers_sleep_on)
{
	void *(*const sleepers[])(void *) = { sleep_in_epoll, sleep_in_read, sleep_in_futex,
					      sleep_in_nanosleep, sleep_in_wait };
	enum { COUNT = sizeof sleepers / sizeof sleepers[0] };
	struct epoll_event event = { .events = EPOLLIN };
	pthread_t threads[COUNT];
	pid_t tids[COUNT] = { 0 };
	void *result;

	trial_begin();
	cr_assert_eq(pipe(pipes), 0);
	event_poll = epoll_create1(0);
	cr_assert_eq(epoll_ctl(event_poll, EPOLL_CTL_ADD, pipes[0], &event), 0);
	for (int i = 0; i < COUNT; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, sleepers[i], &tids[i]), 0);
	for (int i = 0; i < COUNT; i++)
		cr_assert(AWAIT(has_slept(&tids[i])), "sleeper %d does not sleep", i);
	for (int i = 0; i < 20; i++) {
		trial_arm_detour(&trial_first_wish);
		cr_assert_eq(trial_let_go(), 0);
	}
	__atomic_store_n(&futex_word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &futex_word, FUTEX_WAKE, 1);
	cr_assert_eq(write(pipes[1], "ab", 2), 2);
	for (int i = 0; i < COUNT; i++) {
		cr_assert_eq(pthread_join(threads[i], &result), 0);
		cr_assert_eq(result, NULL, "sleeper %d: %s", i, strerror((int)(long)result));
	}
}

/* ---- what can't be stopped ---- */

static void *vfork_and_wait(void *data)
{
	const useconds_t *child_us = data;
	pid_t pid;

	pid = vfork();
	if (!pid) {
		trial_tell(&held);
		/* time is the subject: the child runs on our memory, perhaps in our code */
		usleep(*child_us);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return NULL;
}

static void arm_beside_vfork(useconds_t child_us)
{
	struct detour_result result;
	union trial_record record;
	pthread_t thread;

	trial_begin();
	trial_compose(&record, &trial_first_wish);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(pthread_create(&thread, NULL, vfork_and_wait, &child_us), 0);
	trial_await(&held);
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 1);
	pthread_join(thread, NULL);
}

Test(stop, waits_for_the_child_of_a_vfork)
{
	arm_beside_vfork(100000);
}

/* As on a machine where a thread gets a processor but now and then. */
Test(stop, is_patient_with_what_stops_late)
{
	arm_beside_vfork(1700000);
}

static void *sleep_until_told(void *data)
{
	*(pid_t *)data = (pid_t)syscall(SYS_gettid);
	trial_tell(&held);
	trial_stay(&let_on);
	return NULL;
}

/* A thread that sleeps, and a process that traces it. */
struct traced {
	pthread_t thread;
	pid_t tid, tracer;
	int go;
};

static void trace_one(struct traced *traced)
{
	int ready[2], go[2];
	char byte;

	cr_assert_eq(pthread_create(&traced->thread, NULL, sleep_until_told, &traced->tid), 0);
	trial_await(&held);
	cr_assert_eq(pipe(ready) | pipe(go), 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	traced->tracer = fork();
	if (!traced->tracer) {
		byte = ptrace(PTRACE_SEIZE, traced->tid, 0, 0) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	traced->go = go[1];
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	if (byte != 'y')
		cr_skip_test("ptrace is not allowed here");
}

static void trace_no_more(const struct traced *traced)
{
	cr_assert_eq(write(traced->go, "g", 1), 1);
	waitpid(traced->tracer, NULL, 0);
}

Test(stop, refuses_where_a_debugger_is)
{
	struct detour_result result;
	union trial_record record;
	struct traced traced;

	trial_begin();
	trial_compose(&record, &trial_first_wish);
	trace_one(&traced);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), -WM_E_TRACED);
	cr_assert_eq(result.refused, 1);
	cr_assert_eq(trial_told.refusals, 1);
	cr_assert_eq(trial_told.refusal[0].error, -WM_E_TRACED);
	cr_assert_eq(trial_told.refusal[0].address, (uintptr_t)trial_first);
	cr_assert_eq(trial_first(1), 2);
	cr_assert_eq(trial_events(0), 0);
	trace_no_more(&traced);
	trial_arm_detour(&trial_first_wish);
	trial_tell(&let_on);
	pthread_join(traced.thread, NULL);
}

/* The agent stays for as long as detour_waits(), and no longer. */
Test(stop, waits_with_disarming_for_a_debugger_to_be_gone)
{
	struct traced traced;

	trial_begin();
	trial_arm_detour(&trial_first_wish);
	trace_one(&traced);
	cr_assert_eq(trial_let_go(), 1);
	cr_assert(detour_waits());
	trace_no_more(&traced);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_not(detour_waits());
	trial_tell(&let_on);
	pthread_join(traced.thread, NULL);
}

/* ---- many ---- */

#define FIELD_FUNCTIONS 1000
#define FIELD_STEP 64

/* As trial_first, many times. */
long field_function(long value);
__asm__(".text\n"
	".globl field_function\n"
	".balign 64\n"
	"field_function:\n"
	".rept 1000\n\t"
	".balign 64\n\t"
	"mov $1, %eax\n\tadd %rdi, %rax\n\tret\n\t"
	".endr\n");

typedef long field_fn(long);

static field_fn *field(int i)
{
	return (field_fn *)((uintptr_t)field_function + (uintptr_t)i * FIELD_STEP);
}

static void place_field(void)
{
	static union trial_record record;
	struct trial_wish wish = trial_first_wish;
	struct detour_fixup *fixup;

	wish.function = (void (*)(void))field_function;
	trial_compose(&record, &wish);
	fixup = (void *)((char *)(&record.head + 1) + ((record.head.code_bytes + 7u) & ~7u));
	for (int i = 0; i < FIELD_FUNCTIONS; i++) {
		cr_assert_eq(trial_place(&record), 0);
		record.head.address += FIELD_STEP;
		record.head.point += FIELD_STEP;
		fixup->target += FIELD_STEP;
	}
}

static void *be_there(void *data)
{
	(void)data;
	trial_stay(&let_on);
	return NULL;
}

Test(stop, a_thousand_functions_among_a_hundred_threads)
{
	static uint8_t before[FIELD_FUNCTIONS * FIELD_STEP];
	pthread_t threads[100];
	struct detour_result result;
	uint64_t begin_ns;

	trial_begin();
	memcpy(before, (void *)field_function, sizeof before);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, be_there, NULL), 0);
	begin_ns = lock_now_ns();
	place_field();
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, FIELD_FUNCTIONS);
	cr_log_info("armed in %lu us, stopped for %lu us", (result.done_ns - begin_ns) / 1000,
		    result.stopped_ns / 1000);
	for (int i = 0; i < FIELD_FUNCTIONS; i++)
		cr_assert_eq(field(i)(i), i + 1);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_events(FIELD_FUNCTIONS - 1), 1);
	/* again: no thread has to stop for bytes that are there already */
	place_field();
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.stopped_ns, 0);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)field_function, before, sizeof before);
	place_field();
	cr_assert_eq(trial_commit(&result), 0);
	cr_log_info("armed again, stopped for %lu us", result.stopped_ns / 1000);
	cr_assert_eq(trial_let_go(), 0);
	trial_tell(&let_on);
	for (int i = 0; i < 100; i++)
		pthread_join(threads[i], NULL);
}

static void *end_at_once(void *tid)
{
	__atomic_store_n((pid_t *)tid, gettid(), __ATOMIC_RELEASE);
	return NULL;
}

/* The janitor was made, and then all threads ended, or all but the one that executed a program. */
static void expect_end(pid_t pid, pid_t tid)
{
	static char stack[65536];
	struct stop_job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t janitor;
	int status, has_ended;

	job->halt.pid = pid;
	job->halt.tid = tid;
	janitor = (pid_t)halt_spawn(stack + sizeof(stack), janitor_stop_main, job);
	cr_assert_gt(janitor, 0);
	has_ended = AWAIT(waitpid(janitor, &status, __WALL | WNOHANG) == janitor);
	if (!has_ended)
		kill(janitor, SIGKILL);
	cr_assert(has_ended);
}

Test(stop, janitor_of_ended_process_ends, .timeout = 60)
{
	expect_end(getpid() + 1, getpid() + 1);
}

Test(stop, janitor_of_ended_control_thread_ends, .timeout = 60)
{
	pthread_t thread;
	pid_t tid = 0;

	cr_assert_eq(pthread_create(&thread, NULL, end_at_once, &tid), 0);
	pthread_join(thread, NULL);
	cr_assert(AWAIT(tgkill(getpid(), tid, 0) && errno == ESRCH));
	expect_end(getpid(), tid);
}
