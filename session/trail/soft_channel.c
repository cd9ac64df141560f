/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ENGINE_GUARD_BYTES
#define CHANNEL_BYTES_MAX (UINT64_C(1) << 40)

#define DRAINED_SLOTS 2048
#define DRAINED_SEGMENTS 4
#define DRAINED_SEGMENT_BYTES                                                                      \
	(UINT64_C(256) << 10) /* all of them together stay in a second-level cache */
#define LOG_BYTES (UINT64_C(4) << 20)
#define LAST_SEGMENTS_MIN 8
#define LAST_SEGMENT_BYTES (UINT64_C(256) << 10)
#define LAST_RINGS_BYTES (UINT64_C(64) << 30) /* of address space */
#define LAST_SLOTS_MIN 16

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

struct soft_sizes soft_sizes_for(uint64_t last_bytes)
{
	struct soft_sizes sizes = { DRAINED_SLOTS, DRAINED_SEGMENTS, DRAINED_SEGMENT_BYTES,
				    LOG_BYTES, ENGINE_BLOCK };
	uint64_t ring = last_bytes / 2, slots; /* a path of two blocks: a word here, two there */

	if (!last_bytes)
		return sizes;
	sizes.policy = ENGINE_CYCLIC;
	/* many, since the oldest may be half overwritten */
	sizes.segments = LAST_SEGMENTS_MIN;
	while (sizes.segments < ENGINE_SEGMENTS_MAX && ring / sizes.segments > LAST_SEGMENT_BYTES)
		sizes.segments *= 2;
	sizes.segment_bytes = whole_pages(ring / sizes.segments);
	slots = LAST_RINGS_BYTES / (sizes.segment_bytes * sizes.segments);
	if (slots < DRAINED_SLOTS)
		sizes.slots = slots > LAST_SLOTS_MIN ? (uint32_t)slots : LAST_SLOTS_MIN;
	return sizes;
}

static int lay_out(struct soft_channel *channel)
{
	const struct soft_sizes *sizes = &channel->sizes;
	uint64_t slots = (uint64_t)sizes->slots * sizeof(struct engine_slot);
	unsigned __int128 rings = (unsigned __int128)sizes->slots * sizes->segments *
				  (sizes->segment_bytes + ENGINE_GUARD_BYTES);

	if (!sizes->slots || !sizes->segments || sizes->segments > ENGINE_SEGMENTS_MAX ||
	    !sizes->segment_bytes || sizes->segment_bytes % PAGE || !sizes->log_bytes ||
	    sizes->log_bytes % PAGE || sizes->segment_bytes > UINT32_MAX * UINT64_C(4) ||
	    sizes->log_bytes > CHANNEL_BYTES_MAX || rings > CHANNEL_BYTES_MAX)
		return -EINVAL;
	channel->log_at = PAGE + whole_pages(slots);
	channel->rings_at = channel->log_at + sizes->log_bytes;
	channel->bytes = channel->rings_at + (uint64_t)rings;
	return 0;
}

static void fill(const struct soft_channel *channel)
{
	const struct soft_sizes *sizes = &channel->sizes;
	struct engine_channel *head = soft_channel_head(channel);

	*head = (struct engine_channel){
		.magic = ENGINE_MAGIC,
		.version = ENGINE_VERSION,
		.bytes = channel->bytes,
		.slots_at = PAGE,
		.slot_count = sizes->slots,
		.segments_per_slot = sizes->segments,
		.segment_bytes = sizes->segment_bytes,
		.rings_at = channel->rings_at,
		.log_at = channel->log_at,
		.log_bytes = sizes->log_bytes,
	};
	head->boot.policy = sizes->policy;
	head->boot.fd_close[0] = head->boot.fd_close[1] = -1;
}

static int map(struct soft_channel *channel)
{
	uint8_t *reserve = mmap(NULL, PAGE + channel->bytes, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (reserve == MAP_FAILED)
		return -errno;
	channel->reserve = reserve;
	if (mmap(reserve + PAGE, channel->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 channel->fd, 0) == MAP_FAILED ||
	    mprotect(reserve, PAGE, PROT_READ | PROT_WRITE))
		return -errno;
	channel->base = reserve + PAGE;
	return 0;
}

int soft_channel_open(struct soft_channel *channel, const struct soft_sizes *sizes)
{
	int err;

	*channel = (struct soft_channel){ .fd = -1, .sizes = *sizes };
	err = lay_out(channel);
	if (err)
		return err;
	channel->fd = memfd_create("waymark-trail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (channel->fd < 0 || ftruncate(channel->fd, (off_t)channel->bytes) ||
	    fcntl(channel->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	err = map(channel);
	if (!err)
		fill(channel);
	return err;
}

/* ---- held ---- */

/*
 * The kernel finds a futex at a fixed distance from its element of the list. The list must not lie in the channel, where
 * the other side could bend it, so an element is in the page before.
 */
struct element {
	struct robust_list list;
};

static _Thread_local struct robust_list_head held;

static struct element *element_of(const struct soft_channel *channel)
{
	return (struct element *)channel->reserve;
}

void soft_channel_hold(struct soft_channel *channel)
{
	struct engine_channel *head = soft_channel_head(channel);
	struct element *element = element_of(channel);

	if (!held.list.next)
		held.list.next = &held.list;
	held.futex_offset = (long)(PAGE + offsetof(struct engine_channel, tool));
	/* also where another thread's list was copied by fork(2) */
	syscall(SYS_set_robust_list, &held, sizeof(held));
	element->list.next = held.list.next;
	held.list.next = &element->list;
	__atomic_store_n(&head->tool, (uint32_t)gettid(), __ATOMIC_RELEASE);
	channel->is_held = 1;
}

static void wake(const void *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void soft_channel_give_log(const struct soft_channel *channel, uint64_t taken)
{
	struct engine_channel *head = soft_channel_head(channel);

	__atomic_store_n(&head->log_taken, taken, __ATOMIC_RELEASE);
	wake(&head->log_taken);
}

void soft_channel_give_segment(const struct soft_channel *channel, uint32_t slot, uint32_t index,
			       uint64_t number)
{
	struct engine_segment *segment = &soft_channel_slot(channel, slot)->segments[index];

	__atomic_store_n(&segment->taken, (uint32_t)number, __ATOMIC_RELEASE);
	wake(&segment->taken);
}

void soft_channel_give_slot(const struct soft_channel *channel, uint32_t number)
{
	struct engine_slot *slot = soft_channel_slot(channel, number);

	__atomic_store_n(&slot->state, ENGINE_SLOT_FREE, __ATOMIC_RELEASE);
	wake(&slot->state);
}

void soft_channel_let_go(struct soft_channel *channel)
{
	struct engine_channel *head = soft_channel_head(channel);
	struct robust_list *before = &held.list;

	if (!channel->is_held)
		return;
	channel->is_held = 0;
	while (before->next != &element_of(channel)->list)
		before = before->next;
	before->next = before->next->next;
	__atomic_store_n(&head->tool, 0, __ATOMIC_SEQ_CST);
	wake(&head->tool);
	wake(&head->log_taken); /* who waits for a segment looks whether we are there */
}

void soft_channel_close(struct soft_channel *channel)
{
	if (channel->base)
		soft_channel_let_go(channel);
	if (channel->reserve)
		munmap(channel->reserve, PAGE + channel->bytes);
	if (channel->fd >= 0)
		close(channel->fd);
	*channel = (struct soft_channel){ .fd = -1 };
}
