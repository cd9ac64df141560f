/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_control.h"

#include "record/trail/soft/soft_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ENGINE_GUARD_BYTES
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

static void wake(const void *futex)
{
	syscall(SYS_futex, futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

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
	syscall(SYS_futex, &control->page->told, FUTEX_WAIT,
		__atomic_load_n(&control->page->told, __ATOMIC_RELAXED), poll_wait, NULL, 0);
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
