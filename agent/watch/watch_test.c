/* SPDX-License-Identifier: MIT */
/* Watches on this very process, whose kernel events the test opens as a tool would. */
#define _GNU_SOURCE
#include "agent/watch/watch.h"

#include "abi/site.h"
#include "agent/detour/breakpoint.h"
#include "agent/detour/guard.h"
#include "agent/detour/trial.h"
#include "agent/marker/bed.h"
#include "agent/watch/take.h"
#include "base/syscall.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAGIC 0x5eed0001u
#define EVENTS_MAX 8192
#define THREADS 8
#define PAGE_BYTES 4096

static union trial_record mask_record, action_record;
static struct watch_table *table;
static int events[WATCH_ROWS_MAX];

/* ---- what the tool does ---- */

static void begin(void)
{
	struct detour_result result = { 0 };
	struct trial_wish wish = trial_tail_wish;

	trial_take_runner_for_keeper();
	trial_begin();
	wish.flags = DETOUR_GUARD_MASK;
	trial_compose(&mask_record, &wish);
	wish = trial_float_wish;
	wish.flags = DETOUR_GUARD_ACTION;
	trial_compose(&action_record, &wish);
	memset(mask_record.head.types, 0, sizeof mask_record.head.types);
	memset(action_record.head.types, 0, sizeof action_record.head.types);
	cr_assert_eq(trial_place(&mask_record), 0);
	cr_assert_eq(trial_place(&action_record), 0);
	trial_commit(&result);
	cr_assert(trap_program.is_guarded);
}

static struct control_watch about_word(uint32_t number, const void *address, unsigned int bytes)
{
	static const uint8_t types[] = {
		[1] = WM_TYPE_U8, [2] = WM_TYPE_U16, [4] = WM_TYPE_U32, [8] = WM_TYPE_U64
	};

	return (struct control_watch){
		.number = number,
		.magic = MAGIC,
		.address = (uintptr_t)address,
		.bytes = (uint8_t)bytes,
		.type = types[bytes],
		.on = WATCH_ON_WRITE,
		.event = (uint16_t)number,
	};
}

static int add(const struct control_watch *about)
{
	char text[] = "md\nwatch\nword\n?\n0\nip,old,new,how";
	int fd, error = watch_add(TRIAL_LANE, about, text,
				  about->event == about->number &&
						  !(about->flags & WATCH_COUNT_ONLY)
					  ? sizeof text
					  : 0,
				  getpid(), &fd);

	if (fd >= 0) {
		table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		cr_assert_neq(table, MAP_FAILED);
		close(fd);
	}
	return error;
}

static int open_event(const struct control_watch *about, uint8_t generation)
{
	static const uint32_t kinds[] = { [WATCH_ON_WRITE] = HW_BREAKPOINT_W,
					  [WATCH_ON_ACCESS] = HW_BREAKPOINT_RW,
					  [WATCH_ON_EXECUTE] = HW_BREAKPOINT_X };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof attr,
		.sample_period = 1,
		.bp_type = kinds[about->on],
		.bp_addr = about->address,
		.bp_len = about->on == WATCH_ON_EXECUTE ? sizeof(long) : about->bytes,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.inherit = 1,
		.inherit_thread = 1,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.disabled = 1,
		.sig_data = WATCH_COOKIE(about->magic, about->number, generation, 1),
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && (errno == EACCES || errno == ENOENT || errno == ENODEV || errno == ENOSPC))
		cr_skip_test("no kernel breakpoints here");
	cr_assert_geq(fd, 0, "perf_event_open: %s", strerror(errno));
	return fd;
}

static void open_gate(const struct control_watch *about, uint64_t value, uint8_t generation)
{
	struct watch_row *row = &table->rows[about->number];

	row->last.value = value;
	row->last.ticks = 0;
	__atomic_store_n(&row->gate, WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
}

static void arm(const struct control_watch *about)
{
	uint64_t value = 0;

	cr_assert_eq(add(about), 0);
	memcpy(&value, (const void *)(uintptr_t)about->address, about->bytes);
	events[about->number] = open_event(about, about->generation);
	open_gate(about, value, about->generation);
	cr_assert_eq(ioctl(events[about->number], PERF_EVENT_IOC_ENABLE, 0), 0);
}

/* Of the kernel. */
static uint64_t counted(uint32_t number)
{
	uint64_t count = 0;

	cr_assert_eq(read(events[number], &count, sizeof count), sizeof count);
	return count;
}

static void end(uint32_t number)
{
	ioctl(events[number], PERF_EVENT_IOC_DISABLE, 0);
	close(events[number]);
	watch_remove(TRIAL_LANE, number, number);
}

/* ---- what was recorded ---- */

static struct told {
	uint64_t ip, old, now, ticks;
	uint32_t tid, id;
	uint16_t how;
} told[EVENTS_MAX];

static unsigned int told_count, value_bytes;

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 8 + 2 * value_bytes + 2;
}

static void note(const struct bed_event *event, void *data)
{
	struct told *one = &told[told_count++];

	(void)data;
	cr_assert_leq(told_count, EVENTS_MAX);
	*one = (struct told){ .ticks = event->ticks, .tid = event->tid, .id = event->id };
	memcpy(&one->ip, event->fields, 8);
	memcpy(&one->old, event->fields + 8, value_bytes);
	memcpy(&one->now, event->fields + 8 + value_bytes, value_bytes);
	memcpy(&one->how, event->fields + 8 + 2 * (size_t)value_bytes, 2);
}

static int by_time(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

/* In order of time. */
static unsigned int collect(unsigned int bytes)
{
	told_count = 0;
	value_bytes = bytes;
	memset(told, 0, sizeof told);
	bed_read(TRIAL_LANE, width, note, NULL);
	qsort(told, told_count, sizeof told[0], by_time);
	return told_count;
}

static int in_this_binary(uint64_t ip)
{
	extern char __executable_start[], etext[];

	return ip >= (uintptr_t)__executable_start && ip < (uintptr_t)etext;
}

/* ---- values ---- */

static uint64_t word[4] __attribute__((aligned(64)));

Test(watch, a_store_is_an_event_with_what_was_there_and_what_is, .timeout = 30)
{
	struct control_watch about = about_word(0, word, 8);

	word[0] = 7;
	begin();
	arm(&about);
	*(volatile uint64_t *)word = 8;
	*(volatile uint64_t *)word = 8;
	*(volatile uint64_t *)word = UINT64_C(0x123456789abcdef0);
	cr_assert_eq(counted(0), 3);
	cr_assert_eq(collect(8), 3);
	cr_assert_eq(told[0].old, 7);
	cr_assert_eq(told[0].now, 8);
	cr_assert_eq(told[1].old, 8);
	cr_assert_eq(told[1].now, 8);
	cr_assert_eq(told[2].now, UINT64_C(0x123456789abcdef0));
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(told[i].how, WATCH_NEW_EXACT, "how %x", told[i].how);
		cr_assert(in_this_binary(told[i].ip));
		cr_assert_eq((int)told[i].tid, gettid());
	}
	cr_assert_eq(table->rows[0].taken, 3);
	cr_assert_eq(table->rows[0].inexact, 0);
	end(0);
}
