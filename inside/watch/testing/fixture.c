/* SPDX-License-Identifier: MIT */
#include "inside/unwind/unwind.h"
#include "inside/watch/testing/fixture.h"

#include "abi/site.h"
#include "inside/marker/testing/fixture.h"
#include "inside/watch/trap.h"

#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct watch_table *sample_table;
int sample_events[WATCH_ROWS_MAX];

/* ---- what the tool does ---- */

void sample_guard(uint8_t flags)
{
	static union trial_record record;
	struct detour_result result = { 0 };
	struct trial_wish wish = flags == DETOUR_GUARD_MASK ? trial_tail_wish : trial_float_wish;

	wish.flags = flags;
	trial_compose(&record, &wish);
	memset(record.head.types, 0, sizeof record.head.types);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 0, "guards are no events");
}

void sample_begin(void)
{
	trial_take_runner_for_keeper();
	unwind_init();
	watch_init();
	trial_begin();
	sample_guard(DETOUR_GUARD_MASK);
	sample_guard(DETOUR_GUARD_ACTION);
	cr_assert(trap_program.is_guarded);
}

struct control_watch sample_about(uint32_t number, const void *address, unsigned int bytes)
{
	static const uint8_t types[] = {
		[1] = WM_TYPE_U8, [2] = WM_TYPE_U16, [4] = WM_TYPE_U32, [8] = WM_TYPE_U64
	};

	return (struct control_watch){
		.number = number,
		.magic = SAMPLE_MAGIC,
		.address = (uintptr_t)address,
		.bytes = (uint8_t)bytes,
		.type = types[bytes],
		.on = WATCH_ON_WRITE,
		.event = (uint16_t)number,
	};
}

int sample_add(const struct control_watch *about)
{
	char text[] = "md\nwatch\nword\n?\n0\nip,old,new,how";
	int fd, error = watch_add(TRIAL_LANE, about, text,
				  about->event == about->number &&
						  !(about->flags & WATCH_COUNT_ONLY)
					  ? sizeof text
					  : 0,
				  getpid(), &fd);

	if (fd >= 0) {
		sample_table = mmap(NULL, sizeof *sample_table, PROT_READ | PROT_WRITE, MAP_SHARED,
				    fd, 0);
		cr_assert_neq(sample_table, MAP_FAILED);
		close(fd);
	}
	return error;
}

/* A machine may accept a breakpoint that never fires. Once in a test's process. */
static void need_hits(void)
{
	static volatile uint64_t word;
	static int is_tried;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof attr,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&word,
		.bp_len = sizeof word,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	uint64_t count = 0;
	int fd;

	if (is_tried)
		return;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return; /* sample_open() reports it */
	is_tried = 1;
	word = 1;
	cr_assert_eq(read(fd, &count, sizeof count), sizeof count);
	close(fd);
	if (!count)
		cr_skip_test("the machine accepts a breakpoint, and a store does not fire it");
}

int sample_open(const struct control_watch *about, uint8_t generation)
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
		.sig_data = WATCH_COOKIE(about->magic, about->number, generation),
	};
	int fd;

	need_hits();
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == ENOENT || errno == ENODEV || errno == ENOSPC))
		cr_skip_test("no kernel breakpoints here");
	cr_assert_geq(fd, 0, "perf_event_open: %s", strerror(errno));
	return fd;
}

static void sample_gate(const struct control_watch *about, uint64_t value, uint8_t generation)
{
	struct watch_row *row = &sample_table->rows[about->number];

	row->last.value = value;
	row->last.ticks = 0;
	__atomic_store_n(&row->gate, WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
}

void sample_arm(const struct control_watch *about)
{
	uint64_t value = 0;

	cr_assert_eq(sample_add(about), 0);
	memcpy(&value, (const void *)(uintptr_t)about->address, about->bytes);
	sample_events[about->number] = sample_open(about, about->generation);
	sample_gate(about, value, about->generation);
	cr_assert_eq(ioctl(sample_events[about->number], PERF_EVENT_IOC_ENABLE, 0), 0);
}

uint64_t sample_counted(uint32_t number)
{
	uint64_t count = 0;

	cr_assert_eq(read(sample_events[number], &count, sizeof count), sizeof count);
	return count;
}

void sample_end(uint32_t number)
{
	ioctl(sample_events[number], PERF_EVENT_IOC_DISABLE, 0);
	close(sample_events[number]);
	watch_remove(TRIAL_LANE, number, number);
}

/* ---- what was recorded ---- */

struct sample_told sample_told[SAMPLE_TOLD_MAX];
unsigned int sample_told_count;
static unsigned int value_bytes;

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 8 + 2 * value_bytes + 2;
}

static void note(const struct fixture_event *event, void *data)
{
	struct sample_told *one = &sample_told[sample_told_count++];

	(void)data;
	cr_assert_leq(sample_told_count, SAMPLE_TOLD_MAX);
	*one = (struct sample_told){ .ticks = event->ticks, .tid = event->tid, .id = event->id };
	memcpy(&one->ip, event->fields, 8);
	memcpy(&one->old, event->fields + 8, value_bytes);
	memcpy(&one->now, event->fields + 8 + value_bytes, value_bytes);
	memcpy(&one->how, event->fields + 8 + 2 * (size_t)value_bytes, 2);
}

static int by_time(const void *a, const void *b)
{
	const struct sample_told *x = a, *y = b;

	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

unsigned int sample_collect(unsigned int bytes)
{
	sample_told_count = 0;
	value_bytes = bytes;
	memset(sample_told, 0, sizeof sample_told);
	fixture_read(TRIAL_LANE, width, note, NULL);
	qsort(sample_told, sample_told_count, sizeof sample_told[0], by_time);
	return sample_told_count;
}

int sample_is_here(uint64_t ip)
{
	extern char __executable_start[], etext[];

	return ip >= (uintptr_t)__executable_start && ip < (uintptr_t)etext;
}
