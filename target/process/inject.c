/* SPDX-License-Identifier: MIT */
/*
 * How the agent comes into a running process.
 *
 *   1. refuse    what can't work, by looking at /proc alone (target.c)
 *   2. borrow    one program thread: it maps memory, makes part of it executable, and clones a
 *                raw thread (remote_thread.c, scratch_map())
 *   3. raw       the raw thread has a thread control block that Waymark made: enough to call
 *                pthread_create(), nothing more; then it exits (arch/loader.h)
 *   4. load      the proper thread calls dlopen() on the agent, starts it, and ends
 *   5. clean     a second loan unmaps the memory of 2
 *
 * Nothing is done while the program is still being started (inject.h): glibc's loader says that
 * all is loaded, and works on without its lock; what dlopen() then maps, the loader may unmap.
 *
 * No program thread executes Waymark's code, so a lock that one of them holds delays the threads of
 * 3 and 4 only as it delays any other thread. A program without threads is a case of its own: libc
 * then skips some locks, and wakes no one when it releases others. So its thread is not borrowed
 * while it is in the memory allocator, or holds the loader's lock of thread-local memory. It stays
 * stopped until pthread_create() has noted in libc that there are two.
 */
#include "target/process/inject.h"

#include "arch/loader.h"
#include "base/elf.h"
#include "base/lack.h"
#include "base/socketdir.h"
#include "target/process/glibc.h"
#include "target/process/reach.h"
#include "target/process/remote_thread.h"
#include "target/process/target.h"
#include "target/process/thread_search.h"
#include "target/process/thread_status.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define STACK_WORDS_MAX 8192u /* a deeper one is not looked through */
#define CALLER_WORDS 64	      /* of a stack, for return addresses into the allocator */

/*
 * The memory that an injection has in the process: made by two calls of a borrowed thread, filled
 * from outside, removed by a third. Its parts, in this order, each whole pages:
 *
 *	code     readable and executable once filled: the borrowed thread's, then the loader's
 *	data     struct loader_data (arch/loader.h)
 *	stack    of the raw thread
 *	dtv      its table of thread-local blocks
 *	tls      static thread-local memory, up to the thread control block and past it
 */

struct scratch {
	uint64_t start, bytes; /* start 0: absent */
	uint64_t loader;       /* the loader's code */
	uint64_t data, stack_end, dtv, dtv_entries, tcb;
};

#define PAGE_BYTES UINT64_C(4096)
#define STACK_BYTES (128 * UINT64_C(1024))
/*
 * Of thread-local blocks that modules may yet have: a table that is too small would be grown by
 * free().
 */
#define DTV_SPARE 1024
/* struct pthread of glibc, with room to spare (2.34: 2,304 bytes). */
#define PTHREAD_BYTES (2 * PAGE_BYTES)
#define LOADER_AT 1024 /* in the code page, behind the borrowed thread's code */
#define AGENT_STACK_BYTES (256 * UINT64_C(1024))

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void layout(struct scratch *scratch, const struct glibc *glibc)
{
	uint64_t at = PAGE_BYTES;

	scratch->loader = LOADER_AT;
	scratch->data = at;
	at += pages(sizeof(struct loader_data)) + STACK_BYTES;
	scratch->stack_end = at;
	scratch->dtv = at;
	scratch->dtv_entries = glibc->modules + DTV_SPARE;
	at += pages((scratch->dtv_entries + 2) * 16) + pages(glibc->tls_bytes);
	scratch->tcb = at;
	scratch->bytes = at + PTHREAD_BYTES;
}

static int remote_map(struct scratch *scratch, struct remote_thread *remote, struct detail detail)
{
	const uint64_t map[6] = { 0,
				  scratch->bytes,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				  (uint64_t)-1,
				  0 };
	long result;
	int err = remote_thread_syscall(remote, SYS_mmap, map, &result);

	if (err)
		return err;
	if (result < 0 && result > -4096)
		return detail_set(detail, -WM_E_INJECT, "the process can't map %llu KiB: %s",
				  (unsigned long long)scratch->bytes / 1024,
				  strerror((int)-result));
	scratch->start = (uint64_t)result;
	scratch->loader += scratch->start;
	scratch->data += scratch->start;
	scratch->stack_end += scratch->start;
	scratch->dtv += scratch->start;
	scratch->tcb += scratch->start;
	return 0;
}

static int code_write(const struct scratch *scratch, const struct remote_thread *remote)
{
	unsigned char code[PAGE_BYTES];
	size_t bytes = (size_t)(loader_code_end - loader_code);
	size_t jump = LOADER_AT + (size_t)(loader_restore_jump - loader_code);
	int32_t distance = (int32_t)remote_restore_offset() - (int32_t)(jump + 4);

	if (remote_code_bytes() > LOADER_AT || LOADER_AT + bytes > sizeof(code))
		return -E2BIG;
	memset(code, 0, sizeof(code));
	remote_code_fill(code, &remote->saved, remote->mask);
	memcpy(code + LOADER_AT, loader_code, bytes);
	memcpy(code + jump, &distance, sizeof(distance));
	return remote_thread_write(remote, scratch->start, code, sizeof(code));
}

/*
 * The raw thread's control block: what libc asks of it before its thread-local memory is set up is
 * that it points to itself, has the process's guards and its own number (which the kernel writes).
 */
static int tcb_write(const struct scratch *scratch, const struct remote_thread *remote,
		     uint64_t model)
{
	uint64_t dtv = scratch->dtv + 16;
	const uint32_t yes = 1;
	unsigned char guard[8];
	int err = remote_thread_write(remote, scratch->dtv, &scratch->dtv_entries,
				      sizeof(uint64_t));

	for (int i = 0; i < 2 && !err; i++)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.self[i], &scratch->tcb,
					  sizeof(uint64_t));
	if (!err)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.dtv, &dtv, sizeof(dtv));
	if (!err)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.multiple_threads, &yes,
					  sizeof(yes));
	for (int i = 0; i < 3 && !err; i++) {
		err = remote_thread_read(remote, model + loader_tcb.alike[i][0], guard,
					 loader_tcb.alike[i][1]);
		if (!err)
			err = remote_thread_write(remote, scratch->tcb + loader_tcb.alike[i][0],
						  guard, loader_tcb.alike[i][1]);
	}
	return err;
}

/*
 * Under PR_SET_MDWE what could be written never becomes executable. There the page is mapped as
 * code, and written as a debugger writes it.
 */
static int code_protect(const struct scratch *scratch, struct remote_thread *remote,
			struct detail detail)
{
	const uint64_t protect[6] = { scratch->start, PAGE_BYTES, PROT_READ | PROT_EXEC };
	const uint64_t map[6] = { scratch->start,	 PAGE_BYTES,
				  PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				  (uint64_t)-1,		 0 };
	long result;
	int err = remote_thread_syscall(remote, SYS_mprotect, protect, &result);

	if (err || !result)
		return err;
	err = remote_thread_syscall(remote, SYS_mmap, map, &result);
	if (!err && (uint64_t)result == scratch->start)
		err = code_write(scratch, remote);
	else if (!err)
		err = detail_set(detail, -WM_E_INJECT, "the process may not execute new memory: %s",
				 strerror((int)-result));
	return err;
}

/* Unmap it. 0 or an error: it stays. */
static int scratch_unmap(struct scratch *scratch, struct remote_thread *remote)
{
	const uint64_t unmap[6] = { scratch->start, scratch->bytes };
	long result;
	int err;

	if (!scratch->start)
		return 0;
	err = remote_thread_syscall(remote, SYS_munmap, unmap, &result);
	if (err || result)
		return err ? err : (int)result;
	scratch->start = 0;
	return 0;
}

/*
 * Map and fill it: with `data`, which has all but the addresses in here; tid_offset is where a
 * thread control block keeps the thread's number. 0; -WM_E_INJECT, with words; -ESRCH and the like
 * when the loan failed.
 */
static int scratch_map(struct scratch *scratch, struct remote_thread *remote,
		       const struct glibc *glibc, uint64_t tid_offset, struct loader_data *data,
		       struct detail detail)
{
	int err;

	*scratch = (struct scratch){ 0 };
	layout(scratch, glibc);
	err = remote_map(scratch, remote, detail);
	if (err)
		return err;
	data->tcb = scratch->tcb;
	data->tid_at = scratch->tcb + tid_offset;
	data->stack_bytes = AGENT_STACK_BYTES + pages(glibc->tls_bytes);
	err = code_write(scratch, remote);
	if (!err)
		err = remote_thread_write(remote, scratch->data, data, sizeof(*data));
	if (!err)
		err = tcb_write(scratch, remote, halt_thread_pointer(&remote->saved));
	if (!err)
		err = code_protect(scratch, remote, detail);
	if (err)
		scratch_unmap(scratch, remote);
	return err;
}

/* Start the raw thread in it. As scratch_map(). After an error unmap it by another loan. */
static int scratch_start(const struct scratch *scratch, struct remote_thread *remote,
			 const struct loader_data *data, struct detail detail)
{
	const uint64_t flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			       CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_SETTID |
			       CLONE_CHILD_CLEARTID;
	struct halt_regs regs;
	struct target target;
	long result;
	int err = remote_thread_move(remote, scratch->start);

	if (err)
		return err;
	remote_regs_clone(&regs, &remote->saved,
			  scratch->loader + (uint64_t)(loader_clone - loader_code), flags,
			  scratch->stack_end, data->tid_at, scratch->tcb, scratch->data);
	err = remote_thread_run(remote, &regs, &result);
	if (!err && result == -EAGAIN && !target_read(&target, remote->tid))
		return target_thread_limit(&target, -WM_E_INJECT, detail);
	if (!err && result < 0)
		err = detail_set(detail, -WM_E_INJECT, "the process can't start a thread: %s",
				 strerror((int)-result));
	return err;
}

/* The system calls that the agent begins with, made by a borrowed thread (injector_try()). */

#define FROM ((uint64_t)AT_FDCWD)		      /* all paths are absolute */
#define ADDRESS_AT offsetof(struct loader_data, text) /* for the address of a socket */
#define PATH_AT (ADDRESS_AT + offsetof(struct sockaddr_un, sun_path))

_Static_assert(sizeof(struct sockaddr_un) <= LOADER_TEXT_BYTES, "the socket's address fits");

struct calls {
	const struct scratch *scratch;
	struct remote_thread *remote;
	const struct loader_data *data;
	struct detail detail;
};

/* What it returned, -errno as the kernel has it; also where the loan failed, as the next will. */
static int call(const struct calls *calls, long number, uint64_t first, uint64_t second,
		uint64_t third)
{
	const uint64_t arguments[6] = { first, second, third };
	long result;
	int err = remote_thread_syscall(calls->remote, number, arguments, &result);

	return err ? err : (int)result;
}

static int refuse(const struct calls *calls, int err, const char *what)
{
	int error = -WM_E_INJECT;

	if (err == -EMFILE)
		error = -WM_E_NO_DESCRIPTORS;
	else if (err == -EROFS)
		error = -WM_E_SOCKET_DIR;
	return detail_set(calls->detail, error, "%s: %s%s", what, strerror(-err),
			  target_refusal(calls->remote->tid, err));
}

/* The agent's file is opened, and mapped as code. */
static int load(const struct calls *calls)
{
	uint64_t path = calls->scratch->data + offsetof(struct loader_data, agent_path);
	uint64_t map[6] = { 0, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE };
	int fd = call(calls, SYS_openat, FROM, path, O_RDONLY | O_CLOEXEC), err;
	long at;

	if (fd < 0)
		return refuse(calls, fd, calls->data->agent_path);
	map[4] = (uint64_t)fd;
	err = remote_thread_syscall(calls->remote, SYS_mmap, map, &at);
	if (!err && at < 0 && at > -(long)PAGE_BYTES)
		err = (int)at;
	if (!err)
		call(calls, SYS_munmap, (uint64_t)at, PAGE_BYTES, 0);
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	if (err == -EPERM || err == -EACCES)
		return detail_set(calls->detail, -WM_E_INJECT,
				  "%s may not be mapped as code: %s (noexec, SELinux)",
				  calls->data->agent_path, strerror(-err));
	return err ? refuse(calls, err, calls->data->agent_path) : 0;
}

static int bind_at(const struct calls *calls, uint64_t at)
{
	int fd = call(calls, SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return fd;
	err = call(calls, SYS_bind, (uint64_t)fd, at + ADDRESS_AT, sizeof(struct sockaddr_un));
	if (!err)
		call(calls, SYS_unlinkat, FROM, at + PATH_AT, 0);
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	return err;
}

/* A socket is bound in its folder, which is made where it is not there. */
static int listen_there(const struct calls *calls)
{
	uint64_t at = calls->scratch->data, dir = at + offsetof(struct loader_data, socket_dir);
	struct sockaddr_un address;
	char name[32];
	int made, err;

	snprintf(name, sizeof(name), "%d.try", calls->remote->tid);
	err = socketdir_address(&address, calls->data->socket_dir, name);
	if (!err)
		err = remote_thread_write(calls->remote, at + ADDRESS_AT, &address,
					  sizeof(address));
	if (err)
		return err;
	made = call(calls, SYS_mkdirat, FROM, dir, 0700);
	err = made && made != -EEXIST ? made : bind_at(calls, at);
	if (!made)
		call(calls, SYS_unlinkat, FROM, dir, AT_REMOVEDIR);
	return err ? refuse(calls, err, calls->data->socket_dir) : 0;
}

static int share(const struct calls *calls)
{
	uint64_t name = calls->scratch->data + offsetof(struct loader_data, symbol);
	int fd = call(calls, SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);

	if (fd < 0)
		return refuse(calls, fd, "memfd_create(2)");
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	return 0;
}

static int reads_proc(const struct calls *calls)
{
	static const struct {
		char path[32];
		int flags;
	} files[] = { { "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC },
		      { "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC } };
	uint64_t at = calls->scratch->data + ADDRESS_AT;
	int fd = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && fd >= 0; i++) {
		if (remote_thread_write(calls->remote, at, files[i].path, sizeof(files[i].path)))
			return 0;
		fd = call(calls, SYS_openat, FROM, at, (uint64_t)files[i].flags);
		if (fd >= 0)
			call(calls, SYS_close, (uint64_t)fd, 0, 0);
	}
	return fd >= 0;
}

/*
 * With the scratch mapped and filled. 0; 1: it cannot read its own /proc; -WM_E_INJECT,
 * -WM_E_SOCKET_DIR, -WM_E_NO_DESCRIPTORS, with words; or what the loan failed with. What they made
 * is gone again.
 */
static int inject_calls(const struct scratch *scratch, struct remote_thread *remote,
			const struct loader_data *data, struct detail detail)
{
	struct calls calls = { scratch, remote, data, detail };
	int err = load(&calls);

	if (!err)
		err = listen_there(&calls);
	if (!err)
		err = share(&calls);
	return err ? err : !reads_proc(&calls);
}

/*
 * Not read(2), write(2) and their like: glibc's allocator counts processors in /sys, and reports
 * damage before it aborts.
 */
static int is_none_of_malloc(long number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_fsync:
	case SYS_fdatasync:
		return 1;
	default:
		return 0;
	}
}

static int is_code(const struct maps *maps, uint64_t address)
{
	const struct map *map = maps_find(maps, address);

	return map && map->prot & PROT_EXEC;
}

/*
 * The code that a signal handler has interrupted: near enough to the allocator to be called by it?
 */
static int interrupts(const struct remote_thread *remote, const struct glibc *glibc, uint64_t pc,
		      uint64_t stack)
{
	uint64_t span = glibc->malloc_high - glibc->malloc_low, words[CALLER_WORDS];

	if (pc - glibc->malloc_low < span ||
	    remote_thread_read(remote, stack, words, sizeof(words)))
		return 1;
	for (size_t i = 0; i < CALLER_WORDS; i++)
		if (words[i] - glibc->malloc_low < span)
			return 1;
	return 0;
}

/*
 * Whether the thread is in a system call that glibc's memory allocator doesn't make, and no signal
 * handler that is under way has interrupted the allocator: then it is not in the middle of it,
 * whatever stale words its stack holds.
 */
static int interrupted_call_is_outside_malloc(const struct remote_thread *remote,
					      const struct maps *maps, const struct glibc *glibc)
{
	uint64_t stack = halt_stack(&remote->saved) & ~UINT64_C(7), *words, below, pc;
	const struct map *map = maps_find(maps, stack);
	size_t count = map ? (map->end - stack) / sizeof(*words) : 0;
	int is_outside;

	if (!is_none_of_malloc(remote_regs_call_number(&remote->saved)) || !count ||
	    count > STACK_WORDS_MAX)
		return 0;
	words = malloc(count * sizeof(*words));
	is_outside = words && !remote_thread_read(remote, stack, words, count * sizeof(*words));
	for (size_t i = 0; is_outside && i < count; i++) {
		if (!remote_is_signal_frame(words + i, count - i, &pc, &below) ||
		    !is_code(maps, words[i]) || !is_code(maps, pc))
			continue;
		/* one that has returned looks the same as long as nothing was written over it */
		is_outside = !interrupts(remote, glibc, pc, below);
	}
	free(words);
	return is_outside;
}

enum startup inject_startup_read(pid_t tid, int mem_fd, const struct glibc *glibc)
{
	uint64_t words[STARTUP_WORDS], stack = target_first_stack(tid);

	if (!stack)
		return STARTUP_LOADING; /* no telling */
	stack -= STARTUP_WORDS_BELOW * sizeof(words[0]);
	if (pread(mem_fd, words, sizeof(words), (off_t)stack) != sizeof(words))
		return STARTUP_OVER; /* only the program itself gives that stack away */
	return start_stage_find(words, glibc->entry, glibc->loader_entry);
}

/*
 * Does it run in its parent's memory? The child of a vfork(2) or posix_spawn(3), until it executes.
 */
static int startup_in_parent(pid_t pid, pid_t parent)
{
	return !syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0);
}
#define REMOTE_WAIT_MS 3000 /* for a thread that can be borrowed */
#define TRACED_WAIT_MS 1000 /* another tool may just be doing the same */
#define LOAD_WAIT_MS 10000
#define START_WAIT_MS 30000 /* the agent is in and waits for the kernel: batch_register() */
#define HOLD_MS 20
#define LEAVE_WAIT_MS 1000
#define UNMAP_WAIT_MS 1000
#define EXECS_MAX 3
#define SCAN_WORDS 1024 /* of the stack, for return addresses */
#define SCAN_WORDS_LAX 64
#define TRIES_STRICT 100 /* stale words on a stack may look like a return address for ever */
#define TRIES_LAX 200

struct injection {
	struct target target;
	struct detail detail;
	const char *agent_path, *socket_dir;
	struct scratch scratch;
	struct glibc glibc;
	/* of the address space that the scratch is in; it stays with that one. -1: none yet */
	int mem;
	int tool;    /* poll(2) reports the tool's death; -1: this process is the tool */
	int started; /* the raw thread runs */
	int astray;  /* a borrowed thread is on its own: the scratch must stay */
	int is_trial;
};

static void sleep_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* The agent's file, as the process would find it; by a stopped thread. */
static int agent_check(const struct injection *injection, pid_t tid)
{
	char path[PATH_MAX + 64];
	uint64_t value;
	struct elf elf;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/root%s", tid, injection->agent_path);
	err = elf_open(&elf, path);
	if (!err)
		err = elf_symbol(&elf, INJECT_SYMBOL, &value);
	elf_release(&elf);
	if (err == -EACCES && geteuid())
		err = 0; /* root's link may be unreadable for us; dlopen() will report it */
	if (error_is_lack(err))
		return detail_set(injection->detail, err, "%s", path);
	if (err)
		return detail_set(injection->detail, -WM_E_NO_AGENT,
				  "%s, as process %d sees it: %s", injection->agent_path,
				  injection->target.pid, wm_error_text(err));
	return 0;
}

/* May the next look differ: another tool has detached, or another thread can be read? */
static int may_change(const struct injection *injection, int err)
{
	return err == -WM_E_TRACED || ((err == -ESRCH || err == -WM_E_GONE) &&
				       injection->target.live_tid != injection->target.pid);
}

static int precheck(struct injection *injection, pid_t pid)
{
	uint64_t deadline_ns = tracee_deadline(TRACED_WAIT_MS);
	int err;

	for (;;) {
		err = target_read(&injection->target, pid);
		if (err == -ESRCH)
			return detail_set(injection->detail, err, "process %d", pid);
		if (!err)
			err = target_check(&injection->target, injection->detail);
		if (!err)
			err = target_access(&injection->target, injection->detail);
		if (!may_change(injection, err) || tracee_late(deadline_ns))
			break;
		detail_set(injection->detail, 0, "%s", "");
		sleep_us(2000);
	}
	if (err)
		return err;
	if (injection->agent_path[0] != '/' ||
	    strlen(injection->agent_path) >= sizeof(((struct loader_data *)0)->agent_path) ||
	    strlen(injection->socket_dir) >= sizeof(((struct loader_data *)0)->socket_dir))
		return -EINVAL;
	return 0;
}

/* In struct pthread, two words before the head of the robust list, which the kernel knows. */
static uint64_t tid_by_robust_list(pid_t tid, uint64_t tcb)
{
	uint64_t head = 0;
	size_t bytes;

	if (syscall(SYS_get_robust_list, tid, &head, &bytes) || head < tcb + 2 * sizeof(uint64_t))
		return 0;
	return head - 2 * sizeof(uint64_t) - tcb;
}

/* Where the thread's control block keeps its number. 0: it has none that libc made. */
static uint64_t tid_offset(const struct remote_thread *remote)
{
	uint64_t tcb = halt_thread_pointer(&remote->saved), self, found = 0, known;
	uint32_t words[256], tid = (uint32_t)target_status_number(remote->tid, "NSpid");
	uint64_t first = loader_tcb.tid_first;
	size_t count = (loader_tcb.tid_last - first) / sizeof(words[0]);
	int is_ambiguous = 0;

	for (int i = 0; i < 2; i++)
		if (remote_thread_read(remote, tcb + loader_tcb.self[i], &self, sizeof(self)) ||
		    self != tcb)
			return 0;
	if (remote_thread_read(remote, tcb + first, words, count * sizeof(words[0])))
		return 0;
	/* in struct pthread, behind a list's head; the upper half of an address, 0x7ffe, is not */
	for (size_t i = 0; i < count; i += 2) {
		if (words[i] != tid)
			continue;
		/* 1, a container's first thread, is many things */
		if (found)
			is_ambiguous = 1;
		found = first + i * sizeof(words[0]);
	}
	if (!is_ambiguous)
		return found;
	known = tid_by_robust_list(remote->tid, tcb);
	return known >= first && known % 8 == first % 8 &&
			       known < first + count * sizeof(words[0]) &&
			       words[(known - first) / sizeof(words[0])] == tid
		       ? known
		       : 0;
}

/* Might the thread be inside the memory allocator: is it there, or would it return there? */
static int in_malloc(const struct remote_thread *remote, const struct glibc *glibc, size_t count)
{
	uint64_t words[SCAN_WORDS], stack = halt_stack(&remote->saved);
	uint64_t pc = halt_pc(&remote->saved);
	uint64_t span = glibc->malloc_high - glibc->malloc_low;
	ssize_t got;

	if (pc - glibc->malloc_low < span)
		return 1;
	got = pread(remote->mem, words, count * sizeof(words[0]), (off_t)stack);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(words[0]); i++)
		if (words[i] - glibc->malloc_low < span)
			return 1;
	return 0;
}

/* Whether a thread holds the lock that the raw thread takes. */
static int tls_is_locked(const struct remote_thread *remote, const struct glibc *glibc)
{
	uint32_t lock = 0;

	return glibc->tls_lock && !remote_thread_read(remote, glibc->tls_lock, &lock, 4) && lock;
}

/*
 * Is the program past the loader's work? With a library's constructor that waits it is not, and a
 * program without a usual start never seems to be; but then the loader's own work is done.
 */
static int started(const struct thread_search *search, const struct remote_thread *remote)
{
	const struct injection *injection = search->data;
	enum startup phase = inject_startup_read(remote->tid, remote->mem, &injection->glibc);

	return phase == STARTUP_OVER ||
	       (phase == STARTUP_CONSTRUCTING && search->tries >= TRIES_STRICT);
}

static void data_fill(struct loader_data *data, const struct injection *injection)
{
	const struct glibc *glibc = &injection->glibc;

	*data = (struct loader_data){
		.mask = ~(UINT64_C(1) << 31 | UINT64_C(1) << 32), /* signals 32 and 33 */
		.tls_init = glibc->tls_init,
		.attr_init = glibc->attr_init,
		.attr_detach = glibc->attr_detach,
		.attr_stack = glibc->attr_stack,
		.create = glibc->create,
		.dlopen = glibc->dlopen,
		.dlsym = glibc->dlsym,
		.dlerror = glibc->dlerror,
		.errno_at = glibc->errno_at,
		.errno_offset = glibc->errno_offset,
		.tls_words = glibc->tls_words,
		.symbol = INJECT_SYMBOL,
	};
	strcpy(data->socket_dir, injection->socket_dir);
	/* An agent that is there is meant by the name that it was loaded by. */
	strcpy(data->agent_path, *glibc->agent_path ? glibc->agent_path : injection->agent_path);
}

static uint32_t status_read(const struct injection *injection)
{
	uint32_t status = 0;

	if (pread(injection->mem, &status, sizeof(status), (off_t)injection->scratch.data) !=
	    sizeof(status))
		return UINT32_MAX; /* the address space is gone */
	return status;
}

static void hold(const struct injection *injection)
{
	uint64_t deadline_ns = tracee_deadline(HOLD_MS);

	while (status_read(injection) < LOADER_CREATED && !tracee_late(deadline_ns))
		sleep_us(20);
}

/* With a thread borrowed: look, map, start. -EAGAIN: at this moment it can't be. */
static int load_by(struct thread_search *search, struct remote_thread *remote)
{
	struct injection *injection = search->data;
	size_t scan = search->tries < TRIES_STRICT ? SCAN_WORDS : SCAN_WORDS_LAX;
	int alone = target_status_number(injection->target.pid, "Threads") == 1;
	struct pollfd tool = { .fd = injection->tool };
	struct loader_data *data = malloc(sizeof(*data));
	struct maps maps = { 0 };
	uint64_t word, offset = tid_offset(remote);
	int err = data ? maps_read(&maps, remote->tid) : -ENOMEM;

	/* What came into the child of a vfork(2), would come into its parent. */
	if (!err && startup_in_parent(injection->target.pid, injection->target.ppid))
		err = detail_set(injection->detail, -EAGAIN,
				 "process %d (%s) runs in its parent's memory, until it executes",
				 injection->target.pid, injection->target.comm);
	if (!err && !offset) /* likewise, if the kernel doesn't report it; or no thread of libc's */
		err = -EAGAIN;
	if (!err)
		err = glibc_read(&injection->glibc, remote->tid, &maps, remote->mem,
				 injection->detail);
	if (!err && !started(search, remote))
		err = detail_set(injection->detail, -EAGAIN, "its program is still being started");
	if (!err && !*injection->glibc.agent_path)
		err = agent_check(injection, remote->tid);
	if (!err && alone && search->tries < TRIES_LAX &&
	    in_malloc(remote, &injection->glibc, scan) &&
	    !interrupted_call_is_outside_malloc(remote, &maps, &injection->glibc))
		err = -EAGAIN;
	if (!err && alone && tls_is_locked(remote, &injection->glibc))
		err = detail_set(injection->detail, -EAGAIN,
				 "its only thread loads or unloads libraries all the time");
	if (!err) /* a tool that was killed wants no agent */
		err = poll(&tool, 1, 0) > 0 ? -ECANCELED : remote_thread_place(remote, &maps);
	/* memory that ends in the middle, and a folder that is gone, prove nothing */
	if (err && err != -EAGAIN &&
	    remote_thread_read(remote, halt_stack(&remote->saved), &word, sizeof(word)))
		err = detail_set(injection->detail, -WM_E_GONE, "process %d (%s)",
				 injection->target.pid, injection->target.comm);
	if (!err) {
		data_fill(data, injection);
		search->committed = 1;
		injection->mem = fcntl(remote->mem, F_DUPFD_CLOEXEC, 0);
		err = injection->mem < 0
			      ? -errno
			      : scratch_map(&injection->scratch, remote, &injection->glibc, offset,
					    data, injection->detail);
	}
	if (injection->is_trial) {
		if (!err)
			err = inject_calls(&injection->scratch, remote, data, injection->detail);
		if (search->committed)
			scratch_unmap(&injection->scratch, remote);
	} else if (!err) {
		err = scratch_start(&injection->scratch, remote, data, injection->detail);
	}
	injection->started = search->committed && !err && !injection->is_trial;
	if (injection->started && !remote_thread_return(remote) && alone)
		hold(injection);
	maps_release(&maps);
	free(data);
	return err;
}

/* Why no thread could be borrowed in all the time: as the process is now. */
static int thread_not_found(struct injection *injection, int err)
{
	int now = precheck(injection, injection->target.pid);

	if (now)
		return now;
	if (err == -EPERM)
		return target_denied(&injection->target, injection->detail);
	if (err == -EOPNOTSUPP)
		return detail_set(injection->detail, -WM_E_INJECT,
				  "process %d (%s) redirects its system calls or runs 32-bit code",
				  injection->target.pid, injection->target.comm);
	if (err == -ETIMEDOUT)
		return detail_set(injection->detail, -WM_E_INJECT,
				  "process %d (%s) sits in the kernel and can't be stopped",
				  injection->target.pid, injection->target.comm);
	if (err == -EBUSY)
		return detail_set(injection->detail, -WM_E_INJECT,
				  "another tool is entering process %d (%s), and does not get on",
				  injection->target.pid, injection->target.comm);
	if (err != -EAGAIN && err != -ESRCH)
		return err;
	if (!injection->detail.bytes || !*injection->detail.text)
		detail_set(
			injection->detail, err,
			"no thread of process %d (%s) was ever at a place where it can be borrowed",
			injection->target.pid, injection->target.comm);
	return -WM_E_INJECT;
}

/* Is the address space that this thread runs in the one that the scratch is in? */
static int same_memory(const struct injection *injection, const struct remote_thread *remote)
{
	unsigned char here[offsetof(struct loader_data, text)], there[sizeof(here)];

	return pread(injection->mem, here, sizeof(here), (off_t)injection->scratch.data) ==
		       (ssize_t)sizeof(here) &&
	       !remote_thread_read(remote, injection->scratch.data, there, sizeof(there)) &&
	       !memcmp(here, there, sizeof(here));
}

static int unmap_by(struct thread_search *search, struct remote_thread *remote)
{
	struct injection *injection = search->data;
	struct maps maps = { 0 };
	int err = same_memory(injection, remote) ? maps_read(&maps, remote->tid) : -WM_E_GONE;

	if (!err)
		err = remote_thread_place(remote, &maps);
	if (!err) {
		/* A second call might take what the program has mapped there since. */
		search->committed = 1;
		err = scratch_unmap(&injection->scratch, remote);
	}
	maps_release(&maps);
	return err;
}

/* The proper thread, by the number in the loader's data. 0: it has ended; or an error. */
static pid_t thread_find(const struct injection *injection, uint32_t number)
{
	pid_t *tids, found = 0;
	int count = target_threads(injection->target.pid, &tids);

	if (count <= 0)
		return count < 0 ? count : -ESRCH;
	for (int i = 0; i < count && !found; i++)
		if (target_status_number(tids[i], "NSpid") == (long)number)
			found = tids[i];
	free(tids);
	return found;
}

/* The thread that loads and starts the agent; 0: not yet there. */
static pid_t loader_thread(const struct injection *injection)
{
	struct loader_data data;

	if (pread(injection->mem, &data, offsetof(struct loader_data, attr),
		  (off_t)injection->scratch.data) != (ssize_t)offsetof(struct loader_data, attr))
		return 0;
	return data.tid ? thread_find(injection, data.tid) : 0;
}

/* Have the raw thread and the proper one ended? Then no thread is in Waymark's code. */
static int threads_left(const struct injection *injection)
{
	struct loader_data data;
	int left;

	if (pread(injection->mem, &data, offsetof(struct loader_data, attr),
		  (off_t)injection->scratch.data) != (ssize_t)offsetof(struct loader_data, attr))
		return 1; /* the address space is gone */
	if (pread(injection->mem, &left, sizeof(left), (off_t)data.tid_at) != sizeof(left) || left)
		return 0;
	if (!data.tid)
		return data.status == LOADER_CREATE_FAILED;
	return !thread_find(injection, data.tid);
}

/* Unmap the scratch. What can't be removed stays, unused: that is no failure. */
static void unmap(struct injection *injection)
{
	struct thread_search search = { .pid = injection->target.pid,
					.wait_ms = UNMAP_WAIT_MS,
					.fn = unmap_by,
					.data = injection };

	thread_search_run(&search);
}

/* Step 5. */
static void clean(struct injection *injection)
{
	uint64_t deadline_ns = tracee_deadline(LEAVE_WAIT_MS);

	while (!threads_left(injection)) {
		if (tracee_late(deadline_ns))
			return;
		sleep_us(200);
	}
	/*
	 * The raw thread ended without the destructors of its thread-local data. The program's own
	 * allocator may keep that in a list, as jemalloc does: it must stay mapped.
	 */
	if (!injection->astray && !injection->glibc.has_other_malloc)
		unmap(injection);
}

static void abandon(const struct injection *injection)
{
	const uint32_t yes = 1;

	/* if the loader gets through later, it won't start the agent; the memory stays for it */
	if (pwrite(injection->mem, &yes, sizeof(yes),
		   (off_t)(injection->scratch.data + offsetof(struct loader_data, abandoned))) < 0)
		return; /* gone: so is the loader */
}

static int give_up(struct injection *injection, uint32_t status)
{
	const char *why = status == LOADER_OPENED    ? "the agent is still starting"
			  : status == LOADER_CREATED ? "its dynamic loader is still busy"
						     : "a new thread has not run";
	pid_t tid = loader_thread(injection);
	char words[192] = "";

	if (tid > 0)
		thread_status_text(injection->target.pid, tid, words, sizeof(words));
	abandon(injection);
	return detail_set(injection->detail, -WM_E_INJECT, "process %d (%s): %s after %d s%s%s",
			  injection->target.pid, injection->target.comm, why,
			  (status == LOADER_OPENED ? START_WAIT_MS : LOAD_WAIT_MS) / 1000,
			  words[0] ? "; the thread that does it: " : "", words);
}

static int outcome(struct injection *injection, uint32_t status)
{
	const size_t bytes = offsetof(struct loader_data, socket_dir);
	const char *comm = injection->target.comm, *why = "";
	struct loader_data data;
	int error = -WM_E_INJECT;

	if (pread(injection->mem, &data, bytes, (off_t)injection->scratch.data) != (ssize_t)bytes)
		return -WM_E_GONE;
	data.text[sizeof(data.text) - 1] = '\0';
	if (abs(data.error) == EAGAIN)
		return target_thread_limit(&injection->target, -WM_E_INJECT, injection->detail);
	if (data.error == -EROFS)
		return detail_set(injection->detail, -WM_E_SOCKET_DIR, "%s: %s",
				  injection->socket_dir, strerror(EROFS));
	if (status == LOADER_STARTED && !data.error)
		return 0;
	if (status == LOADER_CREATE_FAILED) {
		snprintf(data.text, sizeof(data.text), "can't start a thread: %s",
			 strerror(data.error));
	} else if (status == LOADER_STARTED) {
		error = data.error == -EMFILE ? -WM_E_NO_DESCRIPTORS : data.error;
		strcpy(data.text, "the agent could not start");
		why = target_refusal(injection->target.pid, error);
		error = *why ? -WM_E_INJECT : error;
	} else if (target_lacks_descriptors(injection->target.pid, 0)) {
		error = -WM_E_NO_DESCRIPTORS;
	} else if (strstr(data.text, strerror(ENOENT)) &&
		   !strncmp(data.text, injection->agent_path, strlen(injection->agent_path))) {
		error = -WM_E_NO_AGENT; /* and none of the libraries that it needs */
	} else if (strstr(data.text, strerror(EACCES)) || strstr(data.text, strerror(EPERM))) {
		why = target_refusal(injection->target.pid, -EACCES);
	}
	return detail_set(injection->detail, error, "process %d (%s): %s%s", injection->target.pid,
			  comm, data.text, why);
}

/* Steps 3 and 4, seen from here. */
static int await(struct injection *injection)
{
	uint64_t deadline_ns = tracee_deadline(LOAD_WAIT_MS);
	uint64_t start_deadline_ns = tracee_deadline(START_WAIT_MS);
	long pause_us = 50;

	for (;;) {
		uint32_t status = status_read(injection);

		if (status == UINT32_MAX)
			return -WM_E_GONE;
		if (status == LOADER_CREATE_FAILED || status == LOADER_FAILED ||
		    status == LOADER_STARTED) {
			int err = outcome(injection, status);

			clean(injection);
			return err;
		}
		if (tracee_late(status == LOADER_OPENED ? start_deadline_ns : deadline_ns))
			return give_up(injection, status);
		sleep_us(pause_us);
		if (pause_us < 1000)
			pause_us += pause_us / 4;
	}
}

static int not_started(struct injection *injection, int err)
{
	if (!injection->astray) {
		unmap(injection);
		return err;
	}
	abandon(injection);
	return err != -ETIMEDOUT ? err
				 : detail_set(injection->detail, -WM_E_INJECT,
					      "process %d (%s) takes very long over a system call",
					      injection->target.pid, injection->target.comm);
}

static int attempt(struct injection *injection, pid_t pid)
{
	struct thread_search search = { .wait_ms = REMOTE_WAIT_MS,
					.tries_min = TRIES_LAX + 1,
					.fn = load_by,
					.data = injection };
	int err = precheck(injection, pid);

	if (err || reach_listens(&injection->target, injection->socket_dir))
		return err;
	search.pid = injection->target.pid;
	err = thread_search_run(&search);
	injection->astray = search.astray;
	if (thread_search_failed(&search, err))
		err = thread_not_found(injection, err);
	else if (injection->started)
		err = await(injection);
	else if (injection->scratch.start)
		err = not_started(injection, err);
	if (injection->mem >= 0)
		close(injection->mem);
	injection->mem = -1;
	injection->started = injection->astray = 0;
	injection->scratch.start = 0;
	return err == -ESRCH ? -WM_E_GONE : err;
}

/* A process that executed another program meanwhile is that one now. */
static int inject(struct injection *injection, pid_t pid)
{
	int err = attempt(injection, pid);

	for (int again = 0; again < EXECS_MAX && err == -WM_E_GONE; again++) {
		struct target target;

		if (target_read(&target, pid) || target_has_ended(&target))
			break;
		sleep_us(1000);
		err = attempt(injection, pid);
	}
	if (err < 0 && injection->detail.bytes && !*injection->detail.text)
		detail_set(injection->detail, err, "process %d (%s)", injection->target.pid,
			   injection->target.comm);
	return err;
}

/*
 * The injection, by the calling process. `tool` is the end of a pipe to the tool: once the tool is
 * killed, no agent is loaded any more. -1: without one. is_trial: as injector_try().
 */
static int inject_here(pid_t pid, const char *agent_path, const char *socket_dir, int tool,
		       int is_trial, char *detail, size_t detail_bytes)
{
	struct injection *injection = calloc(1, sizeof(*injection));
	int err;

	if (detail_bytes)
		detail[0] = '\0';
	if (!injection)
		return -ENOMEM;
	injection->agent_path = agent_path;
	injection->socket_dir = socket_dir;
	injection->detail = (struct detail){ detail, detail_bytes };
	injection->mem = -1;
	injection->tool = tool;
	injection->is_trial = is_trial;
	err = inject(injection, pid);
	free(injection);
	return err;
}

/*
 * The injector: a process of Waymark's that does one injection and reports the outcome to the tool.
 * While a thread is borrowed, Waymark's code is behind some module's text (remote_thread.h). A tool
 * that is killed at that moment could not restore the bytes there. The injector survives it and
 * does.
 */
#define TOOL 3 /* the pipe to the tool, in the injector */

struct outcome {
	int error;
	char text[1020];
};

_Static_assert(sizeof(struct outcome) <= PIPE_BUF, "one call writes it as a whole");

struct injector {
	pid_t pid;
	const char *agent_path, *socket_dir;
	int is_trial;
	int pipe[2];
};

/*
 * Nothing of the tool's is kept: no terminal, no lock on the folder, no pipe that others wait on.
 */
static void keep_only(int tool)
{
	int null;

	dup2(tool, TOOL);
	null = open("/dev/null", O_RDWR);
	for (int i = 0; i < TOOL; i++)
		dup2(null, i);
	close_range(TOOL + 1, ~0u, 0);
}

static void serve(const struct injector *injector)
{
	struct outcome outcome = { 0 };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	prctl(PR_SET_NAME, "waymark-inject");
	keep_only(injector->pipe[1]);
	outcome.error = inject_here(injector->pid, injector->agent_path, injector->socket_dir, TOOL,
				    injector->is_trial, outcome.text, sizeof(outcome.text));
	_exit(write(TOOL, &outcome, sizeof(outcome)) < 0);
}

/* Twice: so it is init's to wait for, and not for this program, which may wait for any child. */
static int fork_away(const struct injector *injector)
{
	pid_t child = fork();

	if (!child) {
		child = fork();
		if (!child)
			serve(injector);
		_exit(child < 0);
	}
	if (child < 0)
		return -errno;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* 0, or there is no outcome: the injector could not be started, or was killed. */
static int run(struct injector *injector, struct outcome *outcome)
{
	int err = pipe2(injector->pipe, O_CLOEXEC) ? -errno : fork_away(injector);
	ssize_t got;

	if (injector->pipe[1] >= 0)
		close(injector->pipe[1]);
	do
		got = err ? 0 : read(injector->pipe[0], outcome, sizeof(*outcome));
	while (got < 0 && errno == EINTR);
	if (injector->pipe[0] >= 0)
		close(injector->pipe[0]);
	return got == (ssize_t)sizeof(*outcome) ? 0 : -EAGAIN;
}

/*
 * This process does the injection itself where no other can: its own is to be refused, and Yama may
 * let a parent alone enter a process. Then -EPERM came before anything was done.
 */
static int inject_by(struct injector *injector, char *detail, size_t detail_bytes)
{
	pid_t pid = injector->pid;
	struct outcome outcome;
	struct target target;

	if ((!target_read(&target, pid) && target.pid == getpid()) || run(injector, &outcome) ||
	    outcome.error == -EPERM)
		return inject_here(pid, injector->agent_path, injector->socket_dir, -1,
				   injector->is_trial, detail, detail_bytes);
	if (detail_bytes)
		snprintf(detail, detail_bytes, "%s", outcome.text);
	return outcome.error;
}

int injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		   size_t detail_bytes)
{
	struct injector injector = { pid, agent_path, socket_dir, 0, { -1, -1 } };

	return inject_by(&injector, detail, detail_bytes);
}

int injector_try(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		 size_t detail_bytes)
{
	struct injector injector = { pid, agent_path, socket_dir, 1, { -1, -1 } };

	return inject_by(&injector, detail, detail_bytes);
}
