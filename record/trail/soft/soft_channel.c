/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ENGINE_GUARD_BYTES
#define CHANNEL_BYTES_MAX (UINT64_C(1) << 40)

#define DRAINED_SLOTS 8192
#define DRAINED_SEGMENTS 4
#define DRAINED_SEGMENT_BYTES                                                                      \
	(UINT64_C(256) << 10) /* all of them together stay in a second-level cache */
#define LOG_BYTES (UINT64_C(4) << 20)
#define FOLLOWED_LOG_BYTES (UINT64_C(1) << 20)
#define LAST_SEGMENTS_MIN 3
#define LAST_SEGMENT_BYTES (UINT64_C(512) << 10) /* the end of each is a fault, of microseconds */
/* of address space, of each process; we have 128 TiB */
#define LAST_RINGS_BYTES (UINT64_C(256) << 30)
#define FOLLOWED_RINGS_BYTES (UINT64_C(24) << 30)
#define LAST_SLOTS_MIN 16

static void wake(const void *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

struct soft_sizes soft_sizes_for(uint64_t last_bytes, int follows)
{
	struct soft_sizes sizes = { DRAINED_SLOTS,	   DRAINED_SEGMENTS,
				    DRAINED_SEGMENT_BYTES, follows ? FOLLOWED_LOG_BYTES : LOG_BYTES,
				    ENGINE_BLOCK,	   follows != 0 };
	uint64_t rings = follows ? FOLLOWED_RINGS_BYTES : LAST_RINGS_BYTES;
	uint64_t ring = last_bytes / 2, slots; /* a path of two blocks: a word here, two there */

	if (!last_bytes)
		return sizes;
	sizes.policy = ENGINE_CYCLIC;
	/* more than the half that is wanted, since the oldest may be overwritten but for its end */
	sizes.segments = 2;
	while (sizes.segments < ENGINE_SEGMENTS_MAX && ring / sizes.segments > LAST_SEGMENT_BYTES)
		sizes.segments *= 2;
	if (sizes.segments < LAST_SEGMENTS_MIN)
		sizes.segments = LAST_SEGMENTS_MIN;
	sizes.segment_bytes = whole_pages(ring / sizes.segments);
	if (sizes.segment_bytes < LAST_SEGMENT_BYTES)
		sizes.segment_bytes = LAST_SEGMENT_BYTES;
	slots = rings / (sizes.segment_bytes * sizes.segments);
	if (slots < sizes.slots)
		sizes.slots = slots > LAST_SLOTS_MIN ? (uint32_t)slots : LAST_SLOTS_MIN;
	return sizes;
}

static int lay_out(struct soft_channel *channel)
{
	struct soft_sizes *sizes = &channel->sizes;
	uint64_t slots = (uint64_t)sizes->slots * sizeof(struct engine_slot);
	unsigned __int128 rings = (unsigned __int128)sizes->slots * sizes->segments *
				  (sizes->segment_bytes + ENGINE_GUARD_BYTES);

	if (!sizes->slots || !sizes->segments || sizes->segments > ENGINE_SEGMENTS_MAX ||
	    !sizes->segment_bytes || sizes->segment_bytes % PAGE || !sizes->log_bytes ||
	    sizes->log_bytes % PAGE || sizes->segment_bytes > UINT32_MAX * UINT64_C(4) ||
	    sizes->log_bytes > CHANNEL_BYTES_MAX || rings > CHANNEL_BYTES_MAX)
		return -EINVAL;
	channel->slots_at = 2 * PAGE; /* behind the head and the control page */
	channel->log_at = channel->slots_at + whole_pages(slots);
	channel->rings_at = channel->log_at + sizes->log_bytes;
	channel->bytes = channel->rings_at + (uint64_t)rings;
	return 0;
}

static int map(struct soft_channel *channel)
{
	uint8_t *reserve = mmap(NULL, PAGE + channel->bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (reserve == MAP_FAILED)
		return -errno;
	channel->reserve = reserve;
	if (mmap(reserve + PAGE, channel->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 channel->fd, 0) == MAP_FAILED)
		return -errno;
	channel->base = reserve + PAGE;
	return 0;
}

int soft_channel_open(struct soft_channel *channel, const struct soft_sizes *sizes)
{
	int fd = memfd_create(SOFT_CHANNEL_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return soft_channel_open_at(channel, sizes, fd < 0 ? -errno : fd);
}

int soft_channel_open_at(struct soft_channel *channel, const struct soft_sizes *sizes, int fd)
{
	struct stat about;
	int err;

	*channel = (struct soft_channel){ .fd = fd < 0 ? -1 : fd, .sizes = *sizes };
	/* no one else is to open it, by /proc/PID/fd */
	if (fd >= 0)
		fchmod(fd, 0);
	err = fd < 0 ? fd : lay_out(channel);
	if (!err && fstat(fd, &about))
		err = -errno;
	if (err)
		return err;
	channel->device = about.st_dev;
	channel->inode = about.st_ino;
	if (ftruncate(channel->fd, (off_t)channel->bytes) ||
	    fcntl(channel->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    fstat(channel->fd, &about))
		return -errno;
	/* the process that made the memfd may have changed its size, up to the seals */
	return (uint64_t)about.st_size == channel->bytes ? map(channel) : -EPROTO;
}

void soft_channel_close_fd(struct soft_channel *channel)
{
	if (channel->fd >= 0)
		close(channel->fd);
	channel->fd = -1;
}

void soft_channel_fill(const struct soft_channel *channel)
{
	const struct soft_sizes *sizes = &channel->sizes;
	struct engine_channel *head = soft_channel_head(channel);

	*head = (struct engine_channel){
		.version = ENGINE_VERSION,
		.bytes = channel->bytes,
		.slots_at = channel->slots_at,
		.slot_count = sizes->slots,
		.segments_per_slot = sizes->segments,
		.segment_bytes = sizes->segment_bytes,
		.rings_at = channel->rings_at,
		.log_at = channel->log_at,
		.log_bytes = sizes->log_bytes,
		.follows = sizes->follows,
	};
	/* last: the forked child that waits for it then sees all before it */
	__atomic_store_n(&head->magic, ENGINE_MAGIC, __ATOMIC_RELEASE);
}

void soft_channel_give_log(const struct soft_channel *channel, uint64_t taken)
{
	struct engine_channel *head = soft_channel_head(channel);

	__atomic_store_n(&head->log_taken, taken, __ATOMIC_RELEASE);
	wake(&head->log_taken);
}

void soft_channel_answer(uint32_t *ask, uint32_t answer)
{
	__atomic_store_n(ask, answer, __ATOMIC_RELEASE);
	wake(ask);
}

void soft_channel_meet(struct engine_child *entry)
{
	__atomic_store_n(&entry->met, 1, __ATOMIC_RELEASE);
	wake(&entry->met);
}

void soft_channel_give_child(struct engine_child *entry)
{
	soft_channel_meet(entry);
	__atomic_store_n(&entry->use, ENGINE_USE_FREE, __ATOMIC_RELEASE);
	wake(&entry->use);
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

	if (!slot->tid)
		slot->tid = UINT32_MAX; /* who took it was killed at once */
	__atomic_store_n(&slot->state, ENGINE_SLOT_FREE, __ATOMIC_RELEASE);
	wake(&slot->state);
}

void soft_channel_close(struct soft_channel *channel)
{
	if (channel->reserve)
		munmap(channel->reserve, PAGE + channel->bytes);
	soft_channel_close_fd(channel);
	*channel = (struct soft_channel){ .fd = -1 };
}

#define BEFORE (2 * PAGE) /* a channel's: a page of our own, its head */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* linux/fcntl.h of 5.1 */
#endif

/*
 * The kernel finds a futex at a fixed distance from its element of the list. The list must not be
 * in memory that the other side could change, so the element is in a private page, at that distance
 * before the control page.
 */
struct element {
	struct robust_list list;
};

static _Thread_local struct robust_list_head held;

/*
 * Our mapping stays writable; no mapping that is made from now on is, nor can be made so. Of a
 * kernel before 5.1, by a descriptor that can't write.
 */
static int seal(struct soft_control *control)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	char path[64];
	int fd;

	if (!fcntl(control->fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", control->fd);
	fd = errno == EINVAL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return -errno;
	close(control->fd);
	control->fd = fd;
	return 0;
}

int soft_control_open(struct soft_control *control)
{
	uint8_t *reserve;

	*control = (struct soft_control){ .fd = memfd_create("waymark-control",
							     MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	/* no one else is to open it by /proc/PID/fd; seal() may have to read it so */
	if (control->fd < 0 || fchmod(control->fd, S_IRUSR))
		return -errno;
	reserve = mmap(NULL, BEFORE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (reserve == MAP_FAILED)
		return -errno;
	control->reserve = reserve;
	control->bytes = BEFORE + PAGE;
	if (ftruncate(control->fd, PAGE) ||
	    mmap(reserve + BEFORE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 control->fd, 0) == MAP_FAILED)
		return -errno;
	control->page = (struct engine_control *)(reserve + BEFORE);
	return seal(control);
}

void soft_control_open_in(struct soft_control *control, const struct soft_channel *channel)
{
	*control = (struct soft_control){ .fd = -1,
					  .reserve = channel->reserve,
					  .page = (struct engine_control *)(channel->base + PAGE) };
}

void soft_control_hold(struct soft_control *control)
{
	struct element *element = (struct element *)control->reserve;

	if (!held.list.next)
		held.list.next = &held.list;
	held.futex_offset = (long)(BEFORE + offsetof(struct engine_control, tool));
	/* also where another thread's list was copied by fork(2) */
	syscall(SYS_set_robust_list, &held, sizeof(held));
	element->list.next = held.list.next;
	held.list.next = &element->list;
	__atomic_store_n(&control->page->tool, (uint32_t)gettid(), __ATOMIC_RELEASE);
	control->is_held = 1;
}

void soft_control_let_go(struct soft_control *control)
{
	struct element *element = (struct element *)control->reserve;
	struct robust_list *before = &held.list;

	if (!control->is_held)
		return;
	control->is_held = 0;
	while (before->next != &element->list)
		before = before->next;
	before->next = element->list.next;
	__atomic_store_n(&control->page->tool, 0, __ATOMIC_SEQ_CST);
	wake(&control->page->tool);
	soft_control_serve(control);
}

void soft_control_ask(const struct soft_control *control, uint32_t asked)
{
	__atomic_or_fetch(&control->page->asked, asked, __ATOMIC_RELEASE);
}

void soft_control_serve(const struct soft_control *control)
{
	__atomic_add_fetch(&control->page->served, 1, __ATOMIC_RELEASE);
	wake(&control->page->served);
}

void soft_control_refuse(const struct soft_control *control, pid_t parent, uint32_t count)
{
	uint64_t child = ENGINE_OFFSPRING(parent, count);

	__atomic_store_n(&control->page->refused[child % ENGINE_REFUSALS], child, __ATOMIC_RELEASE);
	soft_control_serve(control);
}

void soft_control_wait(const struct soft_control *control, const struct timespec *poll_wait)
{
	syscall(SYS_futex, &control->page->ready_count, FUTEX_WAIT,
		__atomic_load_n(&control->page->ready_count, __ATOMIC_RELAXED), poll_wait, NULL, 0);
}

void soft_control_close(struct soft_control *control)
{
	if (control->page)
		soft_control_let_go(control);
	if (control->bytes)
		munmap(control->reserve, control->bytes);
	if (control->fd >= 0)
		close(control->fd);
	*control = (struct soft_control){ .fd = -1 };
}
