/* SPDX-License-Identifier: MIT */
#include "base/mapped.h"
#include "inside/engine/channel.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/processor.h"
#include "inside/engine/ranges.h"
#include "inside/engine/testing/fixture_code.h"
#include "inside/engine/translate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG_BYTES 65536u
#define PAGE UINT64_C(4096)
#define SLOT_BYTES UINT64_C(0x10000)
#define NO_INSTRUCTION 0x06

enum vector_width fixture_width;
int fixture_is_amd;

/* ---- in place of the engine's ---- */

void gate_exit(void)
{
}

void gate_miss(void)
{
}

void gate_syscall(void)
{
}

void gate_refused(void)
{
}

void gate_changed(void)
{
}

/* Memory of the program's, which nothing else can read: never under the engine's lock. */
int gate_copy(void *to, const void *from, uint64_t bytes)
{
	cr_assert_eq(dispatch_lock, 0);
	return fixture_load(to, (uint64_t)from, bytes);
}

int gate_read(void *to, const void *from, uint64_t bytes)
{
	return gate_copy(to, from, bytes);
}

struct thread *fixture_thread;

int leave_any(int (*is)(const struct thread *thread, uint64_t what), uint64_t what)
{
	return fixture_thread && is(fixture_thread, what);
}

void processor_look(void)
{
}

enum vector_width processor_width(void)
{
	return fixture_width;
}

int processor_is_amd(void)
{
	return fixture_is_amd;
}

/* The test's own mappings are not the program's. */
int mapped_open(struct mapped *mapped)
{
	(void)mapped;
	return -ENOENT;
}

void mapped_close(struct mapped *mapped)
{
	(void)mapped;
}

int mapped_next(struct mapped *mapped, char *path, uint32_t room)
{
	(void)mapped;
	(void)path;
	(void)room;
	return 0;
}

/* ---- for the tests ---- */

static void open_as(int is_far)
{
	static struct engine_channel page __attribute__((aligned(4096)));
	static uint8_t log[LOG_BYTES] __attribute__((aligned(8)));
	static const struct engine_control control = { .tool = 1 };

	channel = (struct channel){
		.head = &page, .control = &control, .log = log, .log_bytes = sizeof(log)
	};
	memory_open(0);
	cr_assert_eq(map_open(is_far), 0);
	cr_assert_eq(traces_open(), 0);
}

void fixture_open(void)
{
	open_as(0);
}

void fixture_open_near(void)
{
	uint8_t code[64];

	open_as(0);
	map_emit_jump(code);
	if (code[0] != 0xff) /* jmp *map(,%rcx,8) */
		cr_skip_test("no room for a near map: a sanitizer has its memory there");
}

void fixture_open_far(void)
{
	open_as(1);
}

void fixture_store(uint64_t at, const void *bytes, size_t count)
{
	int memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);

	cr_assert_eq(pwrite(memory, bytes, count, (off_t)at), (ssize_t)count);
	close(memory);
}

int fixture_load(void *to, uint64_t at, size_t count)
{
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got = pread(memory, to, count, (off_t)at);

	close(memory);
	return got != (ssize_t)count;
}

int fixture_has(uint64_t at, const void *bytes, size_t count)
{
	uint8_t is[UINT16_MAX];

	return !fixture_load(is, at, count) && !memcmp(is, bytes, count);
}

int fixture_is_writable(uint64_t at)
{
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got = pread(memory, (void *)at, 1, (off_t)at);

	cr_assert(got == 1 || errno == EFAULT);
	close(memory);
	return got == 1;
}

void fixture_map(uint64_t start, size_t bytes, uint32_t flags)
{
	void *at = mmap((void *)start, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	cr_assert_eq(at, (void *)start);
	memset(at, NO_INSTRUCTION, bytes);
	if (!(flags & RANGE_WRITABLE))
		cr_assert_eq(mprotect(at, bytes, PROT_NONE), 0);
	ranges_add(start, bytes, flags);
}

uint64_t fixture_put(uint64_t near, uint32_t flags, const void *bytes, size_t count)
{
	static uint64_t slots;
	uint64_t start = near + slots++ * SLOT_BYTES, at = start + PAGE - count;

	fixture_map(start, PAGE, flags);
	fixture_store(at, bytes, count);
	return at;
}

struct trace *fixture_translate(uint64_t pc)
{
	int error = 0;
	struct trace *trace;

	lock_take(&dispatch_lock);
	trace = translate(pc, gate_read, &error);
	lock_give(&dispatch_lock);
	cr_assert_not_null(trace, "%d", error);
	/* the tool has taken all */
	channel.head->log_taken = channel.head->log_put;
	return trace;
}
