/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/channel.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/places.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define POLL_NS 5000000 /* of the tool's death nothing wakes us */

#define SERVED_POLLS 1000 /* of a child: the tool refuses it in 2 s */

struct channel channel;

/* For the tool: which of them this engine takes. */
static const struct engine_note note
	__attribute__((section(ENGINE_NOTE_SECTION), used, aligned(4))) = { ENGINE_NOTE_VALUES };

/* We can't write the word that the tool sleeps on, but wake the tool there. */
static void wake_tool(void)
{
	sys_call3(SYS_futex, (long)&channel.control->ready_count, FUTEX_WAKE, INT32_MAX);
}

static void poll_wait(const uint32_t *word, uint32_t value)
{
	struct timespec time = { 0, POLL_NS };

	wake_tool();
	sys_call(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&time, 0, 0);
}

/* Whether an array is within the channel, behind its head. */
static int is_inside(const struct engine_channel *head, uint64_t at, uint64_t count, uint64_t bytes)
{
	return at >= sizeof(*head) && at <= head->bytes && count <= (head->bytes - at) / bytes;
}

int channel_open(struct engine_channel *head, const struct engine_boot *boot)
{
	const struct engine_channel first = *head;
	uint64_t slot_bytes = first.segments_per_slot * (first.segment_bytes + ENGINE_GUARD_BYTES);

	if (first.bytes != boot->bytes || first.magic != ENGINE_MAGIC ||
	    first.version != ENGINE_VERSION || !first.segments_per_slot ||
	    first.segments_per_slot > ENGINE_SEGMENTS_MAX || !first.slot_count ||
	    first.segment_bytes < 4096 || first.segment_bytes % 4096 || first.rings_at % 4096 ||
	    first.log_bytes < 65536 || first.log_bytes % 8 ||
	    !is_inside(&first, first.slots_at, first.slot_count, sizeof(struct engine_slot)) ||
	    !is_inside(&first, first.log_at, 1, first.log_bytes) ||
	    !is_inside(&first, first.rings_at, first.slot_count, slot_bytes))
		return -EINVAL;
	channel = (struct channel){
		.head = head,
		.control = boot->control_at ? (const struct engine_control *)boot->control_at
					    : (const struct engine_control *)((uint8_t *)head +
									      ENGINE_GUARD_BYTES),
		.slots = (struct engine_slot *)((uint8_t *)head + first.slots_at),
		.rings = (uint8_t *)head + first.rings_at,
		.log = (uint8_t *)head + first.log_at,
		.bytes = first.bytes,
		.log_bytes = first.log_bytes,
		.segment_bytes = first.segment_bytes,
		.slot_bytes = slot_bytes,
		.slot_count = first.slot_count,
		.segments = first.segments_per_slot,
		.follows = first.follows,
		.pid = (uint32_t)sys_call3(SYS_getpid, 0, 0, 0),
		.policy = boot->policy,
		.flags = boot->flags,
	};
	memory_own(head, first.bytes, channel.follows != 0);
	places_given((uint64_t)head, ENGINE_HEAD_BYTES);
	places_add((uint64_t)head + ENGINE_HEAD_BYTES, first.bytes - ENGINE_HEAD_BYTES);
	if (boot->control_at)
		places_given(boot->control_at, ENGINE_GUARD_BYTES);
	return 0;
}

/* ---- a forked child's ---- */

static char *put_number(char *at, uint32_t number)
{
	char digits[10];
	unsigned int count = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		*at++ = digits[--count];
	return at;
}

static long make(uint32_t parent, uint32_t count)
{
	char name[ENGINE_CHANNEL_NAME_BYTES] = ENGINE_CHANNEL_NAME "-";
	char *at = put_number(name + sizeof(ENGINE_CHANNEL_NAME), parent);
	long fd;

	*at++ = '-';
	*put_number(at, count) = '\0';
	fd = sys_call3(SYS_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
	/* for the tool alone: it has privileges, or is its owner */
	if (!sys_failed(fd))
		sys_call3(SYS_fchmod, fd, 0, 0);
	return fd;
}

/* 1: the tool has made it; 0: not yet. Before it has its size, no byte of it may be touched. */
static int is_served(long fd)
{
	struct stat about;

	return !sys_call3(SYS_fstat, fd, (long)&about, 0) &&
	       (uint64_t)about.st_size == channel.bytes &&
	       __atomic_load_n(&channel.head->magic, __ATOMIC_ACQUIRE) == ENGINE_MAGIC;
}

static int await_served(long fd, uint64_t child)
{
	const uint64_t *refused = &channel.control->refused[child % ENGINE_REFUSALS];

	for (unsigned int poll_count = 0; poll_count < SERVED_POLLS && channel_has_tool();
	     poll_count++) {
		uint32_t served = __atomic_load_n(&channel.control->served, __ATOMIC_ACQUIRE);

		if (is_served(fd))
			return 0;
		if (__atomic_load_n(refused, __ATOMIC_ACQUIRE) == child)
			return -EPERM;
		poll_wait(&channel.control->served, served);
	}
	return -ETIMEDOUT;
}

int channel_renew(uint32_t count)
{
	uint32_t parent = channel.pid;
	long fd = make(parent, count), at;
	int err;

	DEBUG_TRACE("engine/process", "child %d of process %d: channel %d", count, parent, fd);
	if (sys_failed(fd))
		return (int)fd;
	channel.pid = (uint32_t)sys_call3(SYS_getpid, 0, 0, 0);
	at = sys_call(SYS_mmap, (long)channel.head, (long)channel.bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
	err = sys_failed(at) ? (int)at : 0;
	if (!err) {
		memory_spare(channel.head, channel.bytes);
		err = await_served(fd, ENGINE_OFFSPRING(parent, count));
		if (err)
			sys_call3(SYS_munmap, (long)channel.head, (long)channel.bytes, 0);
	}
	sys_call3(SYS_close, fd, 0, 0);
	return err;
}

void channel_lose(void)
{
	static uint8_t nowhere[sizeof(struct engine_channel)] __attribute__((aligned(8)));

	channel.head = (struct engine_channel *)nowhere;
}

/* ---- the tool ---- */

int channel_has_tool(void)
{
	uint32_t tool = __atomic_load_n(&channel.control->tool, __ATOMIC_ACQUIRE);

	return tool && !(tool & FUTEX_OWNER_DIED);
}

int channel_is_over(void)
{
	return __atomic_load_n(&channel.control->asked, __ATOMIC_RELAXED) & ENGINE_ASKED_STOP ||
	       __atomic_load_n(&channel.control->tool, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED;
}

void channel_tell(void)
{
	__atomic_add_fetch(&channel.head->ready_count, 1, __ATOMIC_RELEASE);
	wake_tool();
}

void channel_wait(const uint32_t *word, uint32_t value)
{
	__atomic_add_fetch(&channel.head->ready_count, 1, __ATOMIC_RELEASE);
	poll_wait(word, value);
}

void channel_native(enum engine_native why)
{
	uint32_t none = ENGINE_NATIVE_NOT;

	DEBUG_TRACE("engine/native", "runs natively: reason %d, error %d, tool gone %d", why,
		    channel.head->error, channel_is_over());
	if (!channel_is_over() &&
	    __atomic_compare_exchange_n(&channel.head->native, &none, (uint32_t)why, 0,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		channel.head->native_ticks = sys_ticks();
}
