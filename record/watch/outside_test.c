/* SPDX-License-Identifier: MIT */
/*
 * Hits of watches from outside, as a ring of the kernel reports them: what a target's registers and
 * code make of them. The rings are the test's own.
 */
#include "record/watch/outside.h"

#include "arch/perf_registers.h"
#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "record/watch/watching_own.h"
#include "target/process/testing/folder.h"
#include "trace/testing/packets.h"

#include <asm/perf_regs.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define RECORDS_MAX 256
#define ROUNDS 80
#define LARGEST 24 /* bytes that are watched */

/* The child has the same code at the same addresses. */
extern const char outside_stored[], outside_called[];
__asm__(".globl outside_store\n.type outside_store, @function\n"
	"outside_store:\n.cfi_startproc\n"
	"mov %rax, (%rdi)\n"
	".globl outside_stored\noutside_stored:\n"
	"syscall\n"
	".globl outside_called\noutside_called:\n"
	"ret\n.cfi_endproc\n.size outside_store, . - outside_store\n");

static uint64_t word[LARGEST / 8];
static struct wm_session *session;
static struct process *process;
static struct event_record records[RECORDS_MAX];
static unsigned int record_count;
static uint64_t kernel_hits, lost;
static pid_t pid;

/* ---- rings ---- */

int __wrap_perf_object_drain(struct perf_object *object, int is_last,
			     int (*take)(void *data, const struct event_record *record),
			     void *data);
int __wrap_perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits);
int __wrap_perf_object_follow(struct perf_object *object, struct detail detail);
uint64_t __wrap_perf_object_lost(const struct perf_object *object);
uint64_t __wrap_perf_object_forks(const struct perf_object *object);
uint64_t __wrap_perf_object_stray(const struct perf_object *object);
uint64_t __wrap_perf_object_stray_of(const struct perf_object *object, unsigned int source);
const struct event_uncovered *__wrap_perf_object_uncovered(const struct perf_object *object,
							   size_t *count);

int __wrap_perf_object_drain(struct perf_object *object, int is_last,
			     int (*take)(void *data, const struct event_record *record), void *data)
{
	(void)object;
	(void)is_last;
	for (unsigned int i = 0; i < record_count; i++)
		cr_assert_eq(take(data, &records[i]), 0);
	record_count = 0;
	return 0;
}

int __wrap_perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits)
{
	(void)object;
	*hits = source ? 0 : kernel_hits;
	return 0;
}

int __wrap_perf_object_follow(struct perf_object *object, struct detail detail)
{
	(void)object;
	(void)detail;
	return 0;
}

uint64_t __wrap_perf_object_lost(const struct perf_object *object)
{
	(void)object;
	return lost;
}

uint64_t __wrap_perf_object_forks(const struct perf_object *object)
{
	(void)object;
	return 3;
}

uint64_t __wrap_perf_object_stray(const struct perf_object *object)
{
	(void)object;
	return 0;
}

uint64_t __wrap_perf_object_stray_of(const struct perf_object *object, unsigned int source)
{
	(void)object;
	return source ? 0 : 2;
}

const struct event_uncovered *__wrap_perf_object_uncovered(const struct perf_object *object,
							   size_t *count)
{
	static const struct event_uncovered one = { 0, 1000, 1500 };

	(void)object;
	*count = 1;
	return &one;
}

/* ---- the watch ---- */

static struct watch_row *row(void)
{
	return &process->watch.table->rows[0];
}

static struct asked_watch *asked_of(const struct watch_expr *expr, const struct watch_type *type,
				    uint64_t address, uint64_t bytes)
{
	static struct asked_watch asked;
	struct watch_trouble trouble;
	struct watch_place place = { .kind = expr->kind, .bytes = bytes, .text = expr->text };

	place.type = *type;
	cr_assert_eq(ask_make(&asked, expr, &place, address, &trouble), 0, "%s", trouble.detail);
	return &asked;
}

/* Watch `bytes` of word[] with these options, of that type, or of a plain one. */
static void watch(const char *options, uint64_t bytes, const struct watch_node *node)
{
	struct watch_type type;
	struct asked_watch *asked;
	char text[128];
	int err;

	snprintf(text, sizeof(text), "watch:%p/%llu:%s", (void *)word, (unsigned long long)bytes,
		 options);
	err = wm_session_add(session, text);
	if (err == -WM_E_BREAKPOINT_DEAD)
		cr_skip_test("%s", wm_session_detail(session));
	cr_assert_eq(err, 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_attach(session, pid), 0, "%s", wm_session_detail(session));
	process = session->processes;
	cr_assert_eq(expression_type_plain(&type, bytes), 0);
	if (node)
		type.nodes[0] = *node;
	asked = asked_of(session->specs->all[0].watch, &type, (uintptr_t)word, bytes);
	cr_assert_not_null(watched_result(session, 0));
	cr_assert_eq(watched_type_take(&session->watched->all[0], process->number, &type), 0);
	for (unsigned int i = 0; i < asked->count; i++) {
		asked->about[i].number = i;
		cr_assert_eq(outside_ask(session, process, &asked->about[i], 0,
					 i ? "" : asked->text),
			     0);
	}
	cr_assert_eq(outside_table(&process->watch.table), 0);
	cr_assert_eq(outside_armed(process, (struct perf_object *)word, process->watch.table,
				   EVENT_RINGS),
		     0);
}

static void begin(void)
{
	struct wm_session_options options = { .size = sizeof(options) };

	folder_make();
	pid = fork();
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!pid)
		pause();
	cr_assert_gt(pid, 0);
	cr_assert_eq(wm_session_open(&session, &options), 0);
}

static void end(void)
{
	wm_session_close(session);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	folder_remove();
}

static int pump(void)
{
	int count = 0;

	cr_assert_eq(outside_pump(session, process, &count), 0);
	return count;
}

static struct event_record *add(uint64_t ip)
{
	struct event_record *record = &records[record_count++];

	*record = (struct event_record){ .time_ns = 5, .ip = ip, .pid = pid, .tid = pid };
	record->has_regs = 1;
	record->regs[PERF_REG_X86_IP] = ip;
	return record;
}

/* The store of `value` at the word. */
static struct event_record *add_store(uint64_t value)
{
	struct event_record *record = add((uintptr_t)outside_stored);

	record->regs[PERF_REG_X86_AX] = value;
	record->regs[PERF_REG_X86_DI] = (uintptr_t)word;
	return record;
}

TestSuite(outside, .init = begin, .fini = end, .timeout = 60);

Test(outside, store_is_exact_by_its_instruction)
{
	watch("w/outside,if=value==42/", 8, NULL);
	add_store(42);
	add_store(43);
	cr_assert_eq(pump(), 1);
	cr_expect_eq(row()->taken, 2);
	cr_expect_eq(row()->filtered, 1);
	cr_expect_eq(row()->inexact, 0);
	cr_assert_eq(pump(), 0);
}

Test(outside, store_without_registers_is_unknown)
{
	watch("w/outside,if=value==42/", 8, NULL);
	add_store(43)->has_regs = 0;
	add_store(43)->is_kernel = 1;
	pump();
	cr_expect_eq(row()->taken, 2);
	cr_expect_eq(row()->unknown, 2);
	cr_expect_eq(row()->filtered, 0, "an unknown value may be the one");
}

Test(outside, change_after_lost_hits_is_not_left_out)
{
	watch("w/outside,if=changed/", 8, NULL);
	add_store(1);
	add_store(1);
	pump();
	cr_expect_eq(row()->filtered, 1);
	add_store(1)->after_loss = 1;
	pump();
	cr_expect_eq(row()->filtered, 1, "the value before it is not known");
}

/* 64 bits that begin inside of a byte are in nine bytes, and two registers. */
Test(outside, bit_field_in_two_registers_is_not_read_as_one)
{
	static const struct watch_node field = {
		.class = WATCH_UNSIGNED, .bytes = 9, .bit = 5, .bits = 64
	};

	watch("w/outside,if=tid!=1/", 9, &field);
	add_store(1)->source = 0;
	add_store(2)->source = 1;
	pump();
	cr_expect_eq(row()->taken, 1);
	cr_expect_eq(process->watch.table->rows[1].taken, 1);
	cr_expect_eq(row()->filtered, 0);
}

/* Whatever a thread's registers are, a hit is counted once, and the trace has all or says so. */
Test(outside, any_record_is_counted)
{
	static const uint64_t edges[] = {
		0,	   1,	   15,	      UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 47,
		INT64_MAX, 0x1000, 0xffffffff
	};
	uint64_t seed = 5, hits = 0;

	watch("rw/outside,bt=10/", LARGEST, NULL);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		for (unsigned int j = 0; j < RECORDS_MAX; j++) {
			uint64_t random = sample_random(&seed);
			struct event_record *record = add(
				random % 4 == 0	  ? edges[random / 4 % 9]
				: random % 4 == 1 ? sample_random(&seed)
						  : (uintptr_t)outside_stored + random / 4 % 4);

			for (unsigned int k = 0; k < 24; k++)
				record->regs[k] = random & 8 ? sample_random(&seed)
							     : edges[sample_random(&seed) % 9];
			record->regs[PERF_REG_X86_IP] = record->ip;
			record->time_ns = random & 16 ? sample_random(&seed) >> 2 : 0;
			record->source = (unsigned int)(random >> 5 & 1);
			record->has_regs = random >> 6 & 1;
			record->is_kernel = (random >> 7 & 3) == 0;
			record->after_loss = (random >> 9 & 7) == 0;
			record->caller_count = (uint8_t)((random >> 16) % (EVENT_CALLERS_MAX + 1));
			for (unsigned int k = 0; k < record->caller_count; k++)
				record->callers[k] = random & 32 ? sample_random(&seed)
								 : (uintptr_t)outside_called;
			record->tid = random >> 20 & 1 ? pid : (pid_t)(random >> 40);
		}
		hits += RECORDS_MAX;
		pump();
	}
	cr_expect_eq(row()->taken + process->watch.table->rows[1].taken, hits);
	cr_expect_leq(row()->unknown, row()->inexact);
	cr_expect_leq(row()->inexact, row()->taken);
	kernel_hits = hits;
	outside_ended(session, process);
	cr_expect_eq(row()->dropped, 2);
	cr_expect_eq(session->watched->all[0].uncovered_ns, 500);
	cr_expect_eq(session->watched->all[0].children, 3);
}

static int count_events(const struct wm_event *event, void *data)
{
	unsigned int *count = data;
	uint64_t old = 0, new = 0;

	cr_expect_eq(strncmp(event->name, "watch:", 6), 0);
	cr_expect_eq(wm_event_field_u64(wm_event_field_find(event, "old"), &old), 0);
	cr_expect_eq(wm_event_field_u64(wm_event_field_find(event, "new"), &new), 0);
	cr_expect_eq(new, 100 + *count);
	cr_expect_eq(old, *count ? new - 1 : 0);
	++*count;
	return 0;
}

Test(outside, events_have_values_as_a_chain_also_at_one_time)
{
	unsigned int count = 0;

	watch("w/outside/", 8, NULL);
	for (unsigned int i = 0; i < 10; i++)
		add_store(100 + i);
	pump();
	outside_ended(session, process);
	wm_session_read(session, count_events, &count);
	cr_expect_eq(count, 10);
}

Test(outside, what_happens_too_late_from_outside_is_refused)
{
	struct control_watch about = { .address = (uintptr_t)word, .bytes = 8, .owner = 1 };

	watch("w/outside/", 8, NULL);
	cr_expect_eq(outside_ask(session, process, &about, 0, ""), -WM_E_WATCH_OPTION);
	about.owner = 0;
	session->specs->all[0].watch->options.signal = SIGUSR1;
	cr_expect_eq(outside_ask(session, process, &about, 0, ""), -WM_E_WATCH_OPTION);
	session->specs->all[0].watch->options.signal = 0;
	session->specs->all[0].watch->options.trail = 1;
	cr_expect_eq(outside_ask(session, process, &about, 0, ""), -WM_E_WATCH_OPTION);
	session->specs->all[0].watch->options.trail = 0;
}

Test(outside, ended_process_ends_its_watches)
{
	int count = 0;

	watch("w/outside/", 8, NULL);
	process->dead = 1;
	cr_expect_eq(outside_pump(session, process, &count), -WM_E_GONE);
	process->dead = 0;
	outside_ended(session, process);
	cr_expect_eq(outside_pump(session, process, &count), 0);
}
