/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_leave.h"

#include "base/sorted.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_threads.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define STOP_MS 2000
#define BEFORE_MS 3000
#define POLL_NS 2000000
#define MAPPINGS_MAX 65536u
#define HEAD_BYTES 512 /* of the engine's file: enough to identify it */
#define COPIES_MAX 16

/* ---- who waits in a call ---- */

/* Where a sleeping thread continues; 0: it does not sleep, or we can't see it. */
static uint64_t sleeps_at(pid_t pid, pid_t tid)
{
	char path[64], line[256], *last;
	size_t got = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(path, "re");
	if (file) {
		got = fread(line, 1, sizeof(line) - 1, file);
		fclose(file);
	}
	line[got] = '\0';
	last = strrchr(line, ' ');
	return last ? strtoull(last + 1, NULL, 16) : 0;
}

/* The registers that it has natively in the call that it is in. */
static int natively(struct remote_thread *thread, uint64_t at, uint64_t next)
{
	struct user_regs_struct *regs = &thread->saved.regs;
	struct engine_regs own;
	int err = remote_thread_read(thread, at + ENGINE_THREAD_REGS, &own, sizeof(own));

	if (err)
		return err;
	regs->rip = regs->rcx = next;
	regs->rsp = own.gpr[4];
	regs->rbx = own.gpr[3];
	regs->rbp = own.gpr[5];
	/*
	 * what the engine gave the kernel may be its own: a place for what rt_sigtimedwait(2) takes
	 */
	regs->rdi = own.gpr[7];
	regs->rsi = own.gpr[6];
	regs->rdx = own.gpr[2];
	regs->r10 = own.gpr[10];
	regs->r8 = own.gpr[8];
	regs->r9 = own.gpr[9];
	regs->r12 = own.gpr[12];
	regs->r13 = own.gpr[13];
	regs->r14 = own.gpr[14];
	regs->r15 = own.gpr[15];
	regs->eflags = regs->r11 = own.rflags;
	regs->gs_base = 0;
	return 0;
}

static int move(struct remote_thread *thread, const struct engine_places *places,
		struct engine_channel *head)
{
	uint64_t at = thread->saved.regs.gs_base, self = 0, stack = 0, next, mask = 0;
	struct soft_way way = { .at = places->leave, .first = at, .head = head };
	int err;

	if (halt_pc(&thread->saved) != places->call_done || !remote_regs_in_call(&thread->saved) ||
	    remote_thread_read(thread, at + ENGINE_THREAD_SELF, &self, sizeof(self)) ||
	    self != at ||
	    remote_thread_read(thread, at + ENGINE_THREAD_STACK, &stack, sizeof(stack)))
		return 0;
	way.stack = stack;
	way.second = (uint64_t)-remote_regs_result(&thread->saved);
	err = soft_threads_lead(thread, &way);
	if (!head)
		return 1;
	/*
	 * the engine has made its call one that starts again, and the thread continues with its own
	 * mask
	 */
	if (!err)
		err = remote_thread_read(thread, at + ENGINE_THREAD_REGS + 16 * sizeof(uint64_t),
					 &next, sizeof(next));
	if (!err)
		err = remote_thread_read(thread, at + ENGINE_THREAD_SPILL, &mask, sizeof(mask));
	if (!err)
		err = natively(thread, at, next + 2);
	thread->mask = mask;
	soft_threads_unpark(head);
	if (err)
		thread->entered = 0; /* by itself, from where it is parked */
	return 1;
}

int soft_leave_move(pid_t pid, const struct engine_places *places, struct engine_channel *head)
{
	int count, moved = 0;
	pid_t *tids;

	if (!places->call_done)
		return 0;
	count = target_threads(pid, &tids);
	for (int i = 0; i < count; i++) {
		struct remote_thread thread;

		if (sleeps_at(pid, tids[i]) != places->call_done ||
		    remote_thread_stop(&thread, tids[i], tracee_deadline(STOP_MS)))
			continue;
		moved += move(&thread, places, head);
		remote_thread_end(&thread);
	}
	free(tids);
	return moved;
}

/* ---- unmapped ---- */

struct ranges {
	struct engine_mapping *list;
	size_t count;
};

/*
 * In order, and those that lie right behind each other as one: what a call costs is how often we
 * and the program take turns.
 */
static void ranges_join(struct ranges *ranges)
{
	size_t found = 0, kept = 0;

	/* the rest was never mapped, or was about to be unmapped */
	for (size_t i = 0; i < ranges->count; i++)
		if (ranges->list[i].start >= PAGE && ranges->list[i].bytes)
			ranges->list[found++] = ranges->list[i];
	sorted_make(ranges->list, found, sizeof(*ranges->list));
	for (size_t i = 0; i < found; i++) {
		struct engine_mapping *last = kept ? &ranges->list[kept - 1] : NULL;
		const struct engine_mapping *next = &ranges->list[i];

		if (last && last->start + last->bytes == next->start)
			last->bytes += next->bytes;
		else
			ranges->list[kept++] = *next;
	}
	ranges->count = kept;
}

/* A handler of the program's returns through the file: the next recording must not find it. */
static void mark_clear(const struct remote_thread *thread, const struct soft_left *left)
{
	const uint32_t pages = 0;

	remote_thread_write(thread, left->engine + SOFT_MARK_AT, &pages, sizeof(pages));
}

static int ranges_read(const struct remote_thread *thread, const struct soft_left *left,
		       struct ranges *ranges)
{
	const struct engine_places *places = left->places;
	size_t count = places ? places->mapping_count : 0;
	uint64_t channel_bytes;

	if (count > MAPPINGS_MAX || (places && !places->mappings))
		count = 0;
	ranges->list = calloc(count + 2, sizeof(*ranges->list));
	if (!ranges->list)
		return -ENOMEM;
	ranges->count = count;
	if (count && remote_thread_read(thread, places->mappings, ranges->list,
					count * sizeof(*ranges->list)))
		ranges->count = 0;
	ranges_join(ranges);
	/* the list contains the rest of the channel; the file last: it contains the list */
	channel_bytes = ranges->count ? ENGINE_HEAD_BYTES : left->channel_bytes;
	ranges->list[ranges->count++] = (struct engine_mapping){ left->channel_at, channel_bytes };
	if (places && places->is_lasting)
		mark_clear(thread, left);
	else
		ranges->list[ranges->count++] = (struct engine_mapping){ left->engine,
									 left->engine_bytes };
	return 0;
}

static int is_in(const struct ranges *ranges, uint64_t address)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (address - ranges->list[i].start < ranges->list[i].bytes)
			return 1;
	return 0;
}

/* Nobody is in there; and whose gs leads there has none. */
static int is_deserted(const struct soft_threads *stopped, const struct ranges *ranges,
		       const struct soft_left *left)
{
	for (size_t i = 0; i < stopped->count; i++) {
		const struct remote_thread *thread = &stopped->threads[i];
		uint64_t pc = halt_pc(&thread->saved);

		if (is_in(ranges, pc) || pc - left->engine < left->engine_bytes ||
		    is_in(ranges, halt_stack(&thread->saved)))
			return 0;
	}
	for (size_t i = 0; i < stopped->count; i++) {
		struct remote_thread *thread = &stopped->threads[i];

		if (!is_in(ranges, thread->saved.regs.gs_base))
			continue;
		thread->saved.regs.gs_base = 0;
		halt_regs_set(thread->tid, &thread->saved);
	}
	return 1;
}

/* A descriptor of a channel's, whose tool has died before it could have it closed. */
static int fd_find(pid_t tid)
{
	return target_descriptor_find(tid, "/memfd:" SOFT_CHANNEL_NAME " (deleted)");
}

static int close_all(struct remote_thread *thread)
{
	int fd, err = 0;

	for (int i = 0; i < COPIES_MAX && !err && (fd = fd_find(thread->tid)) >= 0; i++) {
		const uint64_t arguments[6] = { (uint64_t)fd };
		long result;

		err = remote_thread_syscall(thread, SYS_close, arguments, &result);
	}
	return err;
}

static int unmap_all(struct soft_threads *stopped, const struct ranges *ranges)
{
	struct remote_thread *first = &stopped->threads[0];
	struct maps maps;
	int err = maps_read(&maps, first->tid);

	if (!err)
		err = remote_thread_place(first, &maps);
	maps_release(&maps);
	for (size_t i = 0; i < ranges->count && !err; i++) {
		const struct engine_mapping *mapping = &ranges->list[i];
		const uint64_t arguments[6] = { mapping->start, mapping->bytes };
		long result;

		if (mapping->start >= PAGE && mapping->bytes)
			err = remote_thread_syscall(first, SYS_munmap, arguments, &result);
	}
	return err ? err : close_all(first);
}

int soft_leave_unmap(pid_t pid, const struct soft_left *left)
{
	char words[256];
	struct soft_threads stopped;
	struct ranges ranges = { 0 };
	int err = soft_threads_stop(&stopped, pid, STOP_MS,
				    (struct detail){ words, sizeof(words) });

	if (err)
		return err;
	err = ranges_read(&stopped.threads[0], left, &ranges);
	if (!err && !is_deserted(&stopped, &ranges, left))
		err = -EAGAIN;
	if (!err)
		err = unmap_all(&stopped, &ranges);
	free(ranges.list);
	soft_threads_end(&stopped);
	return err;
}

/* ---- what was left before ---- */

static int memory_open(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

#define CHANNEL_PATH "/memfd:" SOFT_CHANNEL_NAME

/* The address of an engine's channel; 0: not found. */
static uint64_t channel_find(pid_t tid)
{
	struct maps maps;
	uint64_t at = 0;

	if (!maps_read(&maps, tid))
		for (size_t i = 0; i < maps.count && !at; i++)
			if (!maps.list[i].offset &&
			    !strncmp(maps.list[i].path, CHANNEL_PATH, sizeof(CHANNEL_PATH) - 1))
				at = maps.list[i].start;
	maps_release(&maps);
	return at;
}

static struct soft_left left_of(const struct engine_channel *head, uint64_t at)
{
	struct soft_left left = {
		.engine = head->places.start,
		.engine_bytes = head->places.bytes,
		.channel_at = at,
		.channel_bytes = head->bytes,
		.places = &head->places,
	};

	if (head->taken_at > left.engine) {
		uint64_t end = head->taken_at +
			       head->taken_count * UINT64_C(1) * sizeof(struct engine_taken) +
			       sizeof(struct engine_boot);

		left.engine_bytes = (end + PAGE - 1) / PAGE * PAGE - left.engine;
	}
	return left;
}

/* The head there; an error if a tool records the process. */
static int head_read(pid_t pid, uint64_t at, struct engine_channel *head, struct detail detail)
{
	int mem = memory_open(pid);
	ssize_t got, first = 0;
	uint32_t tool;

	if (mem < 0)
		return detail_set(detail, mem, "process %d", pid);
	got = pread(mem, head, sizeof(*head), (off_t)at);
	if (got == sizeof(*head))
		first = pread(mem, &tool, sizeof(tool),
			      (off_t)((head->control_at ? head->control_at : at + PAGE) +
				      offsetof(struct engine_control, tool)));
	close(mem);
	if (got != sizeof(*head) || first != sizeof(tool) || head->magic != ENGINE_MAGIC ||
	    head->version != ENGINE_VERSION)
		return detail_set(detail, -WM_E_ENGINE_REFUSED,
				  "another version's engine was left in it");
	if (head->places.start &&
	    !soft_threads_may_lead(&head->places, head->places.start, head->places.bytes))
		return detail_set(detail, -WM_E_ENGINE_REFUSED,
				  "what another recording left in it was overwritten");
	if (tool && !(tool & FUTEX_OWNER_DIED))
		return detail_set(
			detail, -EBUSY,
			"it is being recorded already, by thread %u of another recording, whose engine runs it",
			tool & FUTEX_TID_MASK);
	return 0;
}

/* 1: no thread is in it, and with `unmaps` it is gone; 0: not yet; or an error. */
static int rid(pid_t pid, uint64_t at, int unmaps, struct detail detail)
{
	struct engine_channel head;
	struct soft_left left;
	int err = head_read(pid, at, &head, detail);

	if (err)
		return err;
	if (head.state == ENGINE_RUNS) {
		soft_leave_move(pid, &head.places, NULL);
		return 0;
	}
	if (!unmaps)
		return 1;
	left = left_of(&head, at);
	err = soft_leave_unmap(pid, &left);
	if (err && err != -EAGAIN)
		return detail_set(detail, err, "an engine was left in it, and can't be taken away");
	return !err;
}

/* Until it is so of all engines that have a channel. 0 or an error. */
static int rid_all(pid_t pid, int unmaps, struct detail detail)
{
	uint64_t deadline_ns = tracee_deadline(BEFORE_MS), at;

	while ((at = channel_find(pid)) != 0) {
		int done = rid(pid, at, unmaps, detail);

		if (done < 0 || (done && !unmaps))
			return done < 0 ? done : 0;
		if (!done && tracee_late(deadline_ns))
			return detail_set(
				detail, -EAGAIN,
				"it has still to come out of the engine of another recording");
		if (!done)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return 0;
}

/*
 * Room for a copy, whose tool died before it wrote the head: no program has memory there by itself.
 */
static int is_room(const struct map *map, const unsigned char head[HEAD_BYTES],
		   const struct soft_image *image)
{
	uint64_t bytes = map->end - map->start;

	return engine_may_be_at(map->start) && map->prot == (PROT_READ | PROT_WRITE | PROT_EXEC) &&
	       bytes > image->bytes && bytes < 2 * image->bytes && !head[0] &&
	       !memcmp(head, head + 1, HEAD_BYTES - 1);
}

/*
 * Whether an engine's file was copied there: a head as our file's, except for the mark. 0, or how
 * many bytes it takes.
 */
static uint64_t copy_bytes(int mem, const struct map *map, const unsigned char ours[HEAD_BYTES],
			   const struct soft_image *image)
{
	unsigned char head[HEAD_BYTES];
	uint32_t pages;

	if (map->path[0] || map->inode || map->shared || !(map->prot & PROT_READ) ||
	    pread(mem, head, sizeof(head), (off_t)map->start) != sizeof(head))
		return 0;
	if (is_room(map, head, image))
		return map->end - map->start;
	memcpy(&pages, head + SOFT_MARK_AT, sizeof(pages));
	memcpy(head + SOFT_MARK_AT, ours + SOFT_MARK_AT, sizeof(pages));
	return memcmp(head, ours, sizeof(head)) ? 0 : (uint64_t)pages * PAGE;
}

/*
 * The address of one without a channel: its tool died before it made one. *bytes: 0 if not found.
 */
static uint64_t copy_find(pid_t tid, const struct soft_image *image, uint64_t *bytes)
{
	unsigned char ours[HEAD_BYTES];
	int mem = memory_open(tid);
	struct maps maps = { 0 };
	uint64_t at = 0;

	*bytes = 0;
	if (mem >= 0 && pread(image->fd, ours, sizeof(ours), 0) == sizeof(ours) &&
	    !maps_read(&maps, tid))
		for (size_t i = 0; i < maps.count && !*bytes; i++) {
			at = maps.list[i].start;
			*bytes = copy_bytes(mem, &maps.list[i], ours, image);
		}
	maps_release(&maps);
	if (mem >= 0)
		close(mem);
	return at;
}

static void rid_of_copies(pid_t tid, const struct soft_image *image)
{
	uint64_t deadline_ns = tracee_deadline(BEFORE_MS);
	struct soft_left left = { 0 };
	int err = 0;

	for (int i = 0; i < COPIES_MAX && !err; i++) {
		left.engine = copy_find(tid, image, &left.engine_bytes);
		if (!left.engine_bytes)
			return;
		err = soft_leave_unmap(tid, &left);
		/* a thread that its tool has left is parked there until it wakes */
		while (err == -EAGAIN && !tracee_late(deadline_ns)) {
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
			err = soft_leave_unmap(tid, &left);
		}
	}
}

int soft_leave_before(pid_t pid, const struct soft_image *image, struct detail detail)
{
	struct target target;
	int err;

	if (target_read(&target, pid))
		return 0;
	err = rid_all(target.live_tid, 1, detail);
	if (err)
		return err;
	rid_of_copies(target.live_tid, image);
	if (fd_find(target.live_tid) >= 0)
		soft_leave_unmap(target.live_tid, &(struct soft_left){ 0 });
	return 0;
}

int soft_leave_check(pid_t pid, struct detail detail)
{
	struct target target;

	return target_read(&target, pid) ? 0 : rid_all(target.live_tid, 0, detail);
}
