/* SPDX-License-Identifier: MIT */
#include "inside/engine/channel.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/gate.h"
#include "inside/engine/kernel_writes.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"
#include "inside/engine/sys.h"

#include <asm/ioctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define TOP (UINT64_C(1) << 56) /* of user space, with five levels */
#define VECTORS_MAX 1024u	/* UIO_MAXIOV */
#define ROBUST_MAX 2048u	/* ROBUST_LIST_LIMIT of the kernel */
#define WORDS_MAX 32u
/* so much of what a word points to, or of what follows a structure, may be written */
#define REACH_BYTES (UINT64_C(1) << 20)
#define OLD_IOCTL_BYTES 256u /* of ioctl(2)s whose numbers have no size */

enum kind {
	NOTHING,
	BYTES,	  /* so many, and `each` for each of what argument `count` has */
	BITS,	  /* so many as argument `count` has, in whole words */
	PAGES,	  /* a byte for each page of as many bytes as argument `count` has */
	LENGTH,	  /* eight times what argument `count` points to, as it may count structures */
	VECTORS,  /* what struct iovecs point to, as many as argument `count` has, or one */
	MESSAGE,  /* struct msghdr */
	MESSAGES, /* struct mmsghdr, as many as argument `count` has */
	WORDS,	  /* so many bytes of pointers, or what may be: eight bytes behind each */
	IOCTL,
	LATER, /* what is written behind the call: expose_later() */
	IF,    /* the rest of the line is for some calls alone: is_asked() */
	ALL,
};

#define NO_COUNT 6

#ifndef F_GETOWNER_UIDS
#define F_GETOWNER_UIDS 17
#endif

struct written {
	uint8_t kind, argument, count, each;
	uint16_t bytes;
};

#define AT(argument, bytes)                                                                        \
	{                                                                                          \
		BYTES, argument, NO_COUNT, 0, bytes                                                \
	}
#define EACH(argument, count, each)                                                                \
	{                                                                                          \
		BYTES, argument, count, each, 0                                                    \
	}
#define BUFFER(argument, count) EACH(argument, count, 1)
#define OF(kind, argument, count)                                                                  \
	{                                                                                          \
		kind, argument, count, 0, 0                                                        \
	}
#define UNKNOWN OF(ALL, 0, 0)
#define BEHIND OF(LATER, 0, 0)
#define SOMETIMES OF(IF, 0, 0)

/* calls that the headers of older systems do not know */
enum {
	CALL_cachestat = 451,
	CALL_statmount = 457,
	CALL_listmount = 458,
	CALL_lsm_get_self_attr = 459,
	CALL_lsm_list_modules = 461,
	CALL_getxattrat = 464,
	CALL_listxattrat = 465,
	CALL_file_getattr = 468,
	CALL_listns = 470,
	CALLS, /* of Linux 6.18 */
};

#define WRITTEN_MAX 4u

/*
 * By number, up to CALLS; what has no line writes nothing. Arguments are counted from 0. Sizes are
 * the kernel's, or more: a page that is opened without need costs time alone. Calls that the engine
 * answers itself write as the program does, and are not here.
 */
static const struct written calls[CALLS][WRITTEN_MAX] = {
	[SYS_read] = { BUFFER(1, 2) },
	[SYS_stat] = { AT(1, 144) },
	[SYS_fstat] = { AT(1, 144) },
	[SYS_lstat] = { AT(1, 144) },
	[SYS_poll] = { EACH(0, 1, 8) },
	[SYS_ioctl] = { OF(IOCTL, 2, 1) },
	[SYS_pread64] = { BUFFER(1, 2) },
	[SYS_readv] = { OF(VECTORS, 1, 2) },
	[SYS_pipe] = { AT(0, 8) },
	[SYS_select] = { OF(BITS, 1, 0), OF(BITS, 2, 0), OF(BITS, 3, 0), AT(4, 16) },
	[SYS_mincore] = { OF(PAGES, 2, 1) },
	[SYS_madvise] = { SOMETIMES, BUFFER(0, 1) },
	[SYS_shmctl] = { AT(2, 112) },
	[SYS_nanosleep] = { AT(1, 16) },
	[SYS_getitimer] = { AT(1, 32) },
	[SYS_setitimer] = { AT(2, 32) },
	[SYS_sendfile] = { AT(2, 8) },
	[SYS_accept] = { AT(1, 128), AT(2, 4) },
	[SYS_recvfrom] = { BUFFER(1, 2), AT(4, 128), AT(5, 4) },
	[SYS_recvmsg] = { OF(MESSAGE, 1, 0) },
	[SYS_getsockname] = { AT(1, 128), AT(2, 4) },
	[SYS_getpeername] = { AT(1, 128), AT(2, 4) },
	[SYS_socketpair] = { AT(3, 8) },
	[SYS_getsockopt] = { OF(LENGTH, 3, 4), AT(4, 4) },
	[SYS_clone] = { SOMETIMES, AT(2, 4), AT(3, 4), BEHIND },
	[SYS_wait4] = { AT(1, 4), AT(3, 144) },
	[SYS_exit] = { BEHIND },
	[SYS_uname] = { AT(0, 390) },
	[SYS_semctl] = { SOMETIMES, AT(3, 65535) }, /* of 32,000 semaphores at most */
	[SYS_msgrcv] = { { BYTES, 1, 2, 1, 8 } },
	[SYS_msgctl] = { AT(2, 120) },
	[SYS_fcntl] = { SOMETIMES, AT(2, 32) },
	[SYS_getdents] = { BUFFER(1, 2) },
	[SYS_getcwd] = { BUFFER(0, 1) },
	[SYS_readlink] = { BUFFER(1, 2) },
	[SYS_gettimeofday] = { AT(0, 16), AT(1, 8) },
	[SYS_getrlimit] = { AT(1, 16) },
	[SYS_getrusage] = { AT(1, 144) },
	[SYS_sysinfo] = { AT(0, 112) },
	[SYS_times] = { AT(0, 32) },
	[SYS_ptrace] = { UNKNOWN },
	[SYS_getgroups] = { EACH(1, 0, 4) },
	[SYS_getresuid] = { AT(0, 4), AT(1, 4), AT(2, 4) },
	[SYS_getresgid] = { AT(0, 4), AT(1, 4), AT(2, 4) },
	[SYS_capget] = { AT(0, 8), AT(1, 24) },
	[SYS_rt_sigpending] = { AT(0, 8) },
	[SYS_ustat] = { AT(1, 32) },
	[SYS_statfs] = { AT(1, 120) },
	[SYS_fstatfs] = { AT(1, 120) },
	[SYS_sysfs] = { AT(2, 256) },
	[SYS_sched_getparam] = { AT(1, 4) },
	[SYS_sched_rr_get_interval] = { AT(1, 16) },
	[SYS_modify_ldt] = { BUFFER(1, 2) },
	[SYS_prctl] = { AT(1, 512), SOMETIMES, AT(2, 4), AT(4, 8) }, /* most by PR_GET_AUXV */
	[SYS_arch_prctl] = { AT(1, 8) },
	[SYS_adjtimex] = { AT(0, 208) },
	[SYS_quotactl] = { AT(3, 256) },
	[SYS_getxattr] = { BUFFER(2, 3) },
	[SYS_lgetxattr] = { BUFFER(2, 3) },
	[SYS_fgetxattr] = { BUFFER(2, 3) },
	[SYS_listxattr] = { BUFFER(1, 2) },
	[SYS_llistxattr] = { BUFFER(1, 2) },
	[SYS_flistxattr] = { BUFFER(1, 2) },
	[SYS_time] = { AT(0, 8) },
	[SYS_futex] = { SOMETIMES, AT(0, 4), AT(4, 4) },
	[SYS_sched_getaffinity] = { BUFFER(2, 1) },
	[SYS_io_setup] = { AT(1, 8) },
	[SYS_io_getevents] = { EACH(3, 2, 32) },
	[SYS_io_cancel] = { AT(2, 32) },
	[SYS_getdents64] = { BUFFER(1, 2) },
	[SYS_set_tid_address] = { BEHIND },
	/* poll(2), nanosleep(2), clock_nanosleep(2) */
	[SYS_restart_syscall] = { EACH(0, 1, 8), AT(1, 16), AT(3, 16) },
	[SYS_timer_create] = { AT(2, 4) },
	[SYS_timer_settime] = { AT(3, 32) },
	[SYS_timer_gettime] = { AT(1, 32) },
	[SYS_clock_gettime] = { AT(1, 16) },
	[SYS_clock_getres] = { AT(1, 16) },
	[SYS_clock_nanosleep] = { AT(3, 16) },
	[SYS_epoll_wait] = { EACH(1, 2, 12) },
	[SYS_get_mempolicy] = { AT(0, 4), OF(BITS, 1, 2) },
	[SYS_mq_timedreceive] = { BUFFER(1, 2), AT(3, 4) },
	[SYS_mq_getsetattr] = { AT(2, 64) },
	[SYS_waitid] = { AT(2, 128), AT(4, 144) },
	[SYS_keyctl] = { UNKNOWN },
	[SYS_newfstatat] = { AT(2, 144) },
	[SYS_readlinkat] = { BUFFER(2, 3) },
	[SYS_pselect6] = { OF(BITS, 1, 0), OF(BITS, 2, 0), OF(BITS, 3, 0), AT(4, 16) },
	[SYS_ppoll] = { EACH(0, 1, 8), AT(2, 16) },
	[SYS_get_robust_list] = { AT(1, 8), AT(2, 8) },
	[SYS_splice] = { AT(1, 8), AT(3, 8) },
	[SYS_vmsplice] = { OF(VECTORS, 1, 2) },
	[SYS_move_pages] = { EACH(4, 1, 4) },
	[SYS_epoll_pwait] = { EACH(1, 2, 12) },
	[SYS_timerfd_settime] = { AT(3, 32) },
	[SYS_timerfd_gettime] = { AT(1, 32) },
	[SYS_accept4] = { AT(1, 128), AT(2, 4) },
	[SYS_pipe2] = { AT(0, 8) },
	[SYS_preadv] = { OF(VECTORS, 1, 2) },
	[SYS_perf_event_open] = { AT(0, 8) },
	[SYS_recvmmsg] = { OF(MESSAGES, 1, 2), AT(4, 16) },
	[SYS_prlimit64] = { AT(3, 16) },
	[SYS_name_to_handle_at] = { AT(2, 136), AT(3, 8) },
	[SYS_clock_adjtime] = { AT(1, 208) },
	[SYS_sendmmsg] = { EACH(1, 2, 64) },
	[SYS_getcpu] = { AT(0, 4), AT(1, 4) },
	[SYS_process_vm_readv] = { OF(VECTORS, 1, 2) },
	[SYS_process_vm_writev] = { OF(VECTORS, 3, 4) }, /* of this process, maybe */
	[SYS_sched_setattr] = { AT(1, 8) },
	[SYS_sched_getattr] = { BUFFER(1, 2) },
	[SYS_seccomp] = { AT(2, 8) },
	[SYS_getrandom] = { BUFFER(0, 1) },
	[SYS_bpf] = { UNKNOWN },
	[SYS_copy_file_range] = { AT(1, 8), AT(3, 8) },
	[SYS_preadv2] = { OF(VECTORS, 1, 2) },
	[SYS_statx] = { AT(4, 256) },
	[SYS_io_pgetevents] = { EACH(3, 2, 32) },
	[SYS_io_uring_setup] = { AT(1, 120) },
	[SYS_io_uring_register] = { UNKNOWN },
	[SYS_clone3] = { { WORDS, 0, NO_COUNT, 0, 32 }, BEHIND },
	[SYS_process_madvise] = { OF(VECTORS, 1, 2) }, /* MADV_DONTNEED, of this process */
	[SYS_epoll_pwait2] = { EACH(1, 2, 12) },
	[SYS_quotactl_fd] = { AT(3, 256) },
	[CALL_cachestat] = { AT(2, 40) },
	[CALL_statmount] = { BUFFER(1, 2) },
	[CALL_listmount] = { EACH(1, 2, 8) },
	[CALL_lsm_get_self_attr] = { OF(LENGTH, 1, 2), AT(2, 4) },
	[CALL_lsm_list_modules] = { OF(LENGTH, 0, 1), AT(1, 4) },
	[CALL_getxattrat] = { OF(VECTORS, 4, NO_COUNT) }, /* struct xattr_args is like one */
	[CALL_listxattrat] = { BUFFER(3, 4) },
	[CALL_file_getattr] = { BUFFER(2, 3) },
	[CALL_listns] = { EACH(1, 2, 8) },
};

/* Of the program's memory. Before the handlers are ours, a fault there would be the program's. */
static int copy(void *to, uint64_t from, uint64_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	if (__atomic_load_n(&channel.head->state, __ATOMIC_ACQUIRE) != ENGINE_WAITING)
		return gate_copy(to, (const void *)from, bytes);
	return sys_call(SYS_process_vm_readv, sys_call3(SYS_getpid, 0, 0, 0), (long)&local, 1,
			(long)&remote, 1, 0) != (long)bytes;
}

static uint64_t argument(const struct thread *thread, unsigned int number)
{
	static const uint8_t order[] = { 7, 6, 2, 10, 8, 9 };

	return thread->regs.gpr[order[number]];
}

/* ---- what a call reaches ---- */

/* Of more ranges than there is room for, the last includes all that is between. */
static void reach(struct thread *thread, uint64_t start, uint64_t bytes)
{
	struct thread_writes *writes = &thread->writes;
	struct thread_range *last = &writes->ranges[THREAD_WRITES_MAX - 1];
	uint64_t end = bytes < TOP - start ? start + bytes : TOP;

	if (!start || start >= TOP || !bytes)
		return;
	if (writes->found < THREAD_WRITES_MAX) {
		writes->ranges[writes->found++] = (struct thread_range){ start, end };
		return;
	}
	if (start < last->start)
		last->start = start;
	if (end > last->end)
		last->end = end;
}

static void reach_vectors(struct thread *thread, uint64_t at, uint64_t count)
{
	struct iovec vector;

	for (uint64_t i = 0; i < count && i < VECTORS_MAX; i++) {
		if (copy(&vector, (at + i * sizeof(vector)), sizeof(vector)))
			return;
		reach(thread, (uint64_t)vector.iov_base, vector.iov_len);
	}
}

static void reach_messages(struct thread *thread, uint64_t at, uint64_t count, uint64_t bytes)
{
	struct msghdr message;

	reach(thread, at, count * bytes);
	for (uint64_t i = 0; i < count && i < VECTORS_MAX; i++) {
		if (copy(&message, (at + i * bytes), sizeof(message)))
			return;
		reach(thread, (uint64_t)message.msg_name, message.msg_namelen);
		reach(thread, (uint64_t)message.msg_control, message.msg_controllen);
		reach_vectors(thread, (uint64_t)message.msg_iov, message.msg_iovlen);
	}
}

/* Read the words of [at, at + bytes), which may be pointers. Returns how many were read. */
static uint32_t words_read(uint64_t words[WORDS_MAX], uint64_t at, uint64_t bytes)
{
	uint32_t count = 0;

	while (count < WORDS_MAX && count < bytes / 8 &&
	       !copy(&words[count], (at + count * 8ul), 8))
		count++;
	return count;
}

static void reach_words(struct thread *thread, uint64_t at, uint64_t bytes)
{
	uint64_t words[WORDS_MAX];
	uint32_t count = words_read(words, at, bytes);

	for (uint32_t i = 0; i < count; i++)
		reach(thread, words[i], 8);
}

/* The targets of a structure's words, where there is code that the program may write. */
static void reach_nested(struct thread *thread, uint64_t at, uint64_t bytes)
{
	uint64_t words[WORDS_MAX];
	uint32_t count = ranges_are_writable() ? words_read(words, at, bytes) : 0;

	if (!count)
		return;
	lock_take(&dispatch_lock);
	for (uint32_t i = 0; i < count; i++)
		if (ranges_meet_writable(words[i], REACH_BYTES))
			reach(thread, words[i], REACH_BYTES);
	lock_give(&dispatch_lock);
}

/* A structure that is read and written may have an array behind it. Terminals have no pointers. */
static void reach_ioctl(struct thread *thread)
{
	uint32_t request = (uint32_t)argument(thread, 1), direction = _IOC_DIR(request);
	uint64_t at = argument(thread, 2);
	uint64_t bytes = direction ? _IOC_SIZE(request) : OLD_IOCTL_BYTES;
	int is_both = direction == (_IOC_READ | _IOC_WRITE);

	if (at < 4096 || at >= TOP)
		return;
	reach(thread, at, bytes + (is_both ? REACH_BYTES : 0));
	if (_IOC_TYPE(request) != 'T')
		reach_nested(thread, at, bytes);
}

/* Of getsockopt(2) and others, which may count structures, or have pointers in one. */
static void reach_length(struct thread *thread, uint64_t at, uint64_t length_at)
{
	uint32_t length;

	if (copy(&length, length_at, sizeof(length)))
		return;
	reach(thread, at, 8ul * length);
	reach_nested(thread, at, length);
}

/* ---- what is written later ---- */

/* A word of four bytes. */
static void expose(uint64_t at)
{
	if (!at || !ranges_are_writable())
		return;
	lock_take(&dispatch_lock);
	pages_expose(at, 4);
	lock_give(&dispatch_lock);
}

/* A thread's number, which the kernel may write as it begins, and clears as it ends. */
static void expose_number(uint64_t flags, uint64_t at)
{
	if (flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID))
		expose(at);
}

/* The locks that it holds are marked. */
static void expose_locks(void)
{
	struct robust_list_head head;
	uint64_t at = 0, bytes, entry;

	if (!ranges_are_writable() || sys_call3(SYS_get_robust_list, 0, (long)&at, (long)&bytes) ||
	    !at || copy(&head, at, sizeof(head)))
		return;
	expose(((uint64_t)head.list_op_pending & ~1ul) + (uint64_t)head.futex_offset);
	entry = (uint64_t)head.list.next;
	for (uint32_t i = 0; i < ROBUST_MAX && (entry & ~1ul) != at; i++) {
		expose((entry & ~1ul) + (uint64_t)head.futex_offset);
		if (copy(&entry, (entry & ~1ul), sizeof(entry)))
			return;
	}
}

static void expose_later(const struct thread *thread)
{
	struct clone_args args;

	switch (thread->regs.gpr[0]) {
	case SYS_clone:
		expose_number(argument(thread, 0), argument(thread, 3));
		return;
	case SYS_clone3:
		if (!copy(&args, argument(thread, 0), CLONE_ARGS_SIZE_VER0))
			expose_number(args.flags, args.child_tid);
		return;
	case SYS_set_tid_address:
		expose(argument(thread, 0));
		return;
	case SYS_exit:
		expose_locks();
		return;
	default:
		return;
	}
}

/* ---- before a call, and meanwhile ---- */

/* What a call does not use may be anything, also a pointer to code. */
static int is_asked(const struct thread *thread)
{
	uint64_t first = argument(thread, 0), third = argument(thread, 2);
	uint32_t second = (uint32_t)argument(thread, 1);

	switch (thread->regs.gpr[0]) {
	case SYS_clone:
		return (first & (CLONE_PARENT_SETTID | CLONE_PIDFD | CLONE_CHILD_SETTID |
				 CLONE_CHILD_CLEARTID)) != 0;
	case SYS_fcntl:
		return second == F_GETLK || second == F_OFD_GETLK || second == F_GETOWN_EX ||
		       second == F_GETOWNER_UIDS || second == F_GET_RW_HINT ||
		       second == F_GET_FILE_RW_HINT;
	case SYS_futex:
		second &= FUTEX_CMD_MASK;
		return second == FUTEX_WAKE_OP ||
		       (second >= FUTEX_LOCK_PI && second != FUTEX_WAIT_BITSET &&
			second != FUTEX_WAKE_BITSET);
	case SYS_madvise:
		return third == MADV_POPULATE_WRITE;
	case SYS_prctl:
		return (uint32_t)first == PR_SET_MM || (uint32_t)first == PR_SCHED_CORE;
	case SYS_semctl:
		third &= ~UINT64_C(0x100); /* IPC_64 */
		return third == GETALL || third == IPC_STAT || third == IPC_INFO ||
		       third == SEM_STAT || third == SEM_INFO || third == SEM_STAT_ANY;
	default:
		return 1;
	}
}

static void reach_written(struct thread *thread, const struct written *written)
{
	uint64_t at = argument(thread, written->argument), count = 1;

	if (written->count < NO_COUNT)
		count = argument(thread, written->count);
	switch (written->kind) {
	case BYTES:
		/* a count that is too large is a mistake, or takes all that is there */
		count = count < TOP / 64 ? count * written->each : TOP;
		reach(thread, at, written->each ? written->bytes + count : written->bytes);
		return;
	case BITS:
		reach(thread, at, ((uint32_t)count + 63ul) / 64 * 8);
		return;
	case PAGES:
		reach(thread, at, (count + 4095) / 4096);
		return;
	case LENGTH:
		reach_length(thread, at, count);
		return;
	case VECTORS:
		reach_vectors(thread, at, count);
		return;
	case MESSAGE:
		reach_messages(thread, at, 1, sizeof(struct msghdr));
		return;
	case MESSAGES:
		reach_messages(thread, at, (uint32_t)count, sizeof(struct mmsghdr));
		return;
	case WORDS:
		reach_words(thread, at, written->bytes);
		return;
	case IOCTL:
		reach_ioctl(thread);
		return;
	case LATER:
		expose_later(thread);
		return;
	case IF:
		return;
	default:
		reach(thread, 1, TOP);
	}
}

static void open_reached(const struct thread_writes *writes)
{
	uint32_t i;

	for (i = 0; i < writes->found; i++)
		if (pages_may_meet(writes->ranges[i].start, writes->ranges[i].end))
			break;
	if (i == writes->found)
		return;
	lock_take(&dispatch_lock);
	for (; i < writes->found; i++)
		pages_open(writes->ranges[i].start,
			   writes->ranges[i].end - writes->ranges[i].start);
	lock_give(&dispatch_lock);
}

static void find(struct thread *thread)
{
	static const struct written unknown[WRITTEN_MAX] = { UNKNOWN };
	uint64_t number = thread->regs.gpr[0];
	const struct written *written = number < CALLS ? calls[number] : unknown;

	thread->writes.found = 0;
	for (uint32_t i = 0; i < WRITTEN_MAX && written[i].kind; i++) {
		if (written[i].kind == IF && !is_asked(thread))
			return;
		reach_written(thread, &written[i]);
	}
}

/*
 * Pairs with pages_guard(): it guards a page, and then looks at what is found here; we look for
 * guards behind that.
 */
void kernel_writes_open(struct thread *thread)
{
	find(thread);
	if (!thread->writes.found)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	open_reached(&thread->writes);
}

void kernel_writes_take(struct thread *thread)
{
	uint64_t at = 0;

	if (thread->call_next)
		find(thread);
	if (ranges_are_writable() && !sys_call3(SYS_prctl, PR_GET_TID_ADDRESS, (long)&at, 0))
		expose(at);
}
