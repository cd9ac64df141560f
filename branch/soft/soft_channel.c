/* SPDX-License-Identifier: MIT */
#include "branch/soft/soft_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
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
#define SHARED_SLOTS 8192 /* by all processes */
#define SHARED_LOG_BYTES (UINT64_C(1) << 20)
#define LAST_SEGMENTS_MIN 3
#define LAST_SEGMENT_BYTES (UINT64_C(512) << 10) /* the end of each is a fault, of microseconds */
#define LAST_RINGS_BYTES (UINT64_C(256) << 30)	 /* of address space */
#define LAST_SLOTS_MIN 16
#define PAGES_FIRST 256u /* both sides look at all pages, again and again */

static void wake(const void *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

struct soft_sizes soft_sizes_for(uint64_t last_bytes, uint32_t processes)
{
	int is_shared = processes > 1;
	struct soft_sizes sizes = {
		is_shared ? SHARED_SLOTS : DRAINED_SLOTS, DRAINED_SEGMENTS, DRAINED_SEGMENT_BYTES,
		is_shared ? SHARED_LOG_BYTES : LOG_BYTES, ENGINE_BLOCK,	    processes
	};
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
	slots = LAST_RINGS_BYTES / (sizes.segment_bytes * sizes.segments);
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

	sizes->processes += !sizes->processes;
	if (sizes->processes > SOFT_PROCESSES_MAX || !sizes->slots || !sizes->segments ||
	    sizes->segments > ENGINE_SEGMENTS_MAX || !sizes->segment_bytes ||
	    sizes->segment_bytes % PAGE || !sizes->log_bytes || sizes->log_bytes % PAGE ||
	    sizes->segment_bytes > UINT32_MAX * UINT64_C(4) ||
	    sizes->log_bytes > CHANNEL_BYTES_MAX || rings > CHANNEL_BYTES_MAX)
		return -EINVAL;
	channel->slots_at = (uint64_t)sizes->processes * PAGE;
	channel->log_at = channel->slots_at + whole_pages(slots);
	channel->rings_at = channel->log_at + sizes->log_bytes * sizes->processes;
	channel->bytes = channel->rings_at + (uint64_t)rings;
	return 0;
}

/* From now on the page says where everything is. */
void soft_channel_renew(const struct soft_channel *channel, uint32_t process)
{
	const struct soft_sizes *sizes = &channel->sizes;
	struct engine_channel *page = soft_channel_page(channel, process);
	uint64_t at = (uint64_t)process * PAGE;
	struct engine_channel fresh = {
		.magic = ENGINE_MAGIC,
		.version = ENGINE_VERSION,
		.bytes = channel->bytes,
		.slots_at = channel->slots_at - at,
		.slot_count = sizes->slots,
		.segments_per_slot = sizes->segments,
		.segment_bytes = sizes->segment_bytes,
		.rings_at = channel->rings_at - at,
		.log_at = channel->log_at + process * sizes->log_bytes - at,
		.log_bytes = sizes->log_bytes,
		.tool = page->tool,
		.asked = page->asked,
		.cache_bytes = page->cache_bytes,
		.at = at,
		.process = process,
		.processes = sizes->processes,
		.tracer = page->tracer,
		.pages = page->pages,
		.use = page->use,
		.born = page->born,
		.unfollowed = page->unfollowed,
		.met = page->met,
		.entering = page->entering,
	};

	fresh.boot.policy = sizes->policy;
	fresh.boot.fd_close[0] = fresh.boot.fd_close[1] = -1;
	*page = fresh;
}

uint64_t soft_channel_place(int is_far)
{
	uint64_t random = 0;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	return engine_place(random, is_far) / PAGE * PAGE;
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

void soft_channel_grow(struct soft_channel *channel)
{
	struct engine_channel *head = soft_channel_head(channel);
	uint32_t end = channel->pages ? 2 * channel->pages : PAGES_FIRST;

	if (end > channel->sizes.processes)
		end = channel->sizes.processes;
	for (uint32_t n = channel->pages; n < end; n++)
		soft_channel_renew(channel, n);
	channel->pages = end;
	__atomic_store_n(&head->pages, end, __ATOMIC_RELEASE);
	wake(&head->pages);
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
	err = fd < 0 ? fd : lay_out(channel);
	if (!err && fstat(fd, &about))
		err = -errno;
	if (err)
		return err;
	channel->device = about.st_dev;
	channel->inode = about.st_ino;
	if (ftruncate(channel->fd, (off_t)channel->bytes) ||
	    fcntl(channel->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	err = map(channel);
	if (!err)
		soft_channel_grow(channel);
	return err;
}

/* ---- held ---- */

/*
 * The kernel finds a futex at a fixed distance from its element of the list. The list must not be
 * in the channel, where the other side could change it, so the element is in a private page, right
 * before the first process's. The kernel looks at 2048 elements at most (ROBUST_LIST_LIMIT), so
 * processes share one.
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
	struct element *element = element_of(channel);

	if (!held.list.next)
		held.list.next = &held.list;
	held.futex_offset = (long)(PAGE + offsetof(struct engine_channel, tool));
	/* also where another thread's list was copied by fork(2) */
	syscall(SYS_set_robust_list, &held, sizeof(held));
	element->list.next = held.list.next;
	held.list.next = &element->list;
	__atomic_store_n(&soft_channel_head(channel)->tool, (uint32_t)gettid(), __ATOMIC_RELEASE);
	channel->is_held = 1;
}

void soft_channel_give_log(const struct soft_channel *channel, uint32_t process, uint64_t taken)
{
	struct engine_channel *page = soft_channel_page(channel, process);

	__atomic_store_n(&page->log_taken, taken, __ATOMIC_RELEASE);
	wake(&page->log_taken);
}

void soft_channel_executed(const struct soft_channel *channel, uint32_t process)
{
	soft_channel_page(channel, process)->entering = 1;
	soft_channel_renew(channel, process);
}

void soft_channel_give_page(const struct soft_channel *channel, uint32_t process)
{
	struct engine_channel *page = soft_channel_page(channel, process);

	page->entering = 0;
	soft_channel_renew(channel, process);
	__atomic_store_n(&page->use, ENGINE_USE_FREE, __ATOMIC_RELEASE);
	wake(&page->use);
}

void soft_channel_answer(const struct soft_channel *channel, uint32_t process, uint32_t answer)
{
	struct engine_channel *page = soft_channel_page(channel, process);

	__atomic_store_n(&page->ask, answer, __ATOMIC_RELEASE);
	wake(&page->ask);
}

uint32_t soft_channel_told(const struct soft_channel *channel)
{
	return __atomic_load_n(&soft_channel_head(channel)->wanted_log, __ATOMIC_ACQUIRE);
}

void soft_channel_wait(const struct soft_channel *channel, uint32_t reported,
		       const struct timespec *nap)
{
	syscall(SYS_futex, &soft_channel_head(channel)->wanted_log, FUTEX_WAIT, reported, nap, NULL,
		0);
}

void soft_channel_meet(const struct soft_channel *channel, uint32_t process)
{
	struct engine_channel *page = soft_channel_page(channel, process);

	__atomic_store_n(&page->met, 1, __ATOMIC_RELEASE);
	wake(&page->met);
}

void soft_channel_ask(const struct soft_channel *channel, uint32_t asked)
{
	__atomic_or_fetch(&soft_channel_head(channel)->asked, asked, __ATOMIC_RELEASE);
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

void soft_channel_let_go(struct soft_channel *channel)
{
	struct robust_list *before = &held.list;

	if (!channel->is_held)
		return;
	channel->is_held = 0;
	while (before->next != &element_of(channel)->list)
		before = before->next;
	before->next = element_of(channel)->list.next;
	__atomic_store_n(&soft_channel_head(channel)->tool, 0, __ATOMIC_SEQ_CST);
	wake(&soft_channel_head(channel)->tool);
	/* who waits for room looks whether we are there */
	for (uint32_t n = 0; n < channel->pages; n++)
		wake(&soft_channel_page(channel, n)->log_taken);
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
