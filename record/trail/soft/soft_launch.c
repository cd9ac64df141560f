/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_launch.h"

#include "record/trail/launch_gate.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/auxvec.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define BELOW_BYTES 1024u /* of the stack, where nothing is yet */
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)
#define CALL_ERRORS 4095
#define LONG_MODE_SELECTOR 0x33 /* the kernel's, as the low byte also in a guest of Xen */
#define WAIT_MS 10000

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* What the child says once it has the descriptors. */
struct answer {
	int error;
	int fds[SOFT_PASSED];
};

union rights {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(SOFT_PASSED * sizeof(int))];
};

/* ---- the gate ---- */

/* Our descriptors, with a body of the message. */
static int fds_send(int to, const void *bytes, size_t count, const int fds[SOFT_PASSED])
{
	struct iovec body = { (void *)(uintptr_t)bytes, count };
	union rights rights = { .head = { .cmsg_len = CMSG_LEN(SOFT_PASSED * sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	struct msghdr message = { .msg_iov = &body,
				  .msg_iovlen = 1,
				  .msg_control = rights.bytes,
				  .msg_controllen = sizeof(rights.bytes) };

	memcpy(CMSG_DATA(&rights.head), fds, SOFT_PASSED * sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count ? 0 : -errno;
}

/* They stay open over execve(2). */
static int gate_receive(int gate, pid_t *tracer, int fds[SOFT_PASSED])
{
	struct iovec body = { tracer, sizeof(*tracer) };
	union rights rights = { 0 };
	struct msghdr message = { .msg_iov = &body,
				  .msg_iovlen = 1,
				  .msg_control = rights.bytes,
				  .msg_controllen = sizeof(rights.bytes) };

	if (recvmsg(gate, &message, 0) != sizeof(*tracer))
		_exit(127); /* the tracer has gone */
	if (message.msg_flags & MSG_CTRUNC ||
	    rights.head.cmsg_len != CMSG_LEN(SOFT_PASSED * sizeof(int)))
		return EMFILE;
	memcpy(fds, CMSG_DATA(&rights.head), SOFT_PASSED * sizeof(int));
	return 0;
}

void soft_become(int gate, const char *path, char *const argv[])
{
	struct answer answer = { 0 };
	pid_t tracer;

	answer.error = gate_receive(gate, &tracer, answer.fds);
	if (!answer.error)
		prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
	if (write(gate, &answer, sizeof(answer)) != sizeof(answer) || answer.error)
		_exit(127);
	gate_execute(gate, path, argv);
}

int soft_launch_await(struct soft_launch *launch, pid_t pid, int gate,
		      const struct soft_parts *parts)
{
	const int fds[SOFT_PASSED] = { parts->channel->fd, parts->image->fd, parts->control->fd };
	pid_t self = getpid();
	struct answer answer;
	int err;

	*launch = (struct soft_launch){ .pid = pid };
	err = fds_send(gate, &self, sizeof(self), fds);
	if (err)
		return err;
	if (recv(gate, &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
		return -ECHILD;
	if (answer.error)
		return -answer.error;
	memcpy(launch->fds, answer.fds, sizeof(launch->fds));
	/* it dies with us until it has executed the program */
	return gate_pass(gate, pid, OPTIONS | PTRACE_O_EXITKILL);
}

/* ---- the program's own system calls ---- */

/* To where execve(2) is over. No signal comes before. */
static int leave_call(pid_t pid)
{
	uint64_t deadline_ns = tracee_deadline(WAIT_MS);
	int stop, signal;

	if (ptrace(PTRACE_SYSCALL, pid, 0, 0))
		return -errno;
	stop = tracee_wait(pid, deadline_ns, &signal);
	if (stop < 0)
		return stop;
	return stop == TRACEE_SYSCALL ? 0 : -EAGAIN;
}

static int memory_open(struct remote_thread *remote)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", remote->tid);
	remote->mem = open(path, O_RDWR | O_CLOEXEC);
	return remote->mem < 0 ? -errno : 0;
}

/* No module has room: use the program's first instructions. If we die, they are not restored. */
static int place_over(struct remote_thread *remote)
{
	unsigned char code[REMOTE_CODE_BYTES] = { 0 };
	uint64_t at = halt_pc(&remote->saved);
	size_t bytes = remote_code_bytes();
	int err = remote_thread_read(remote, at, remote->stood, bytes);

	if (!err && ptrace(PTRACE_SETOPTIONS, remote->tid, 0, OPTIONS | PTRACE_O_EXITKILL))
		err = -errno;
	if (err)
		return err;
	remote->at = remote->place = at;
	remote->lock = -1; /* it has one thread, and that is ours */
	remote_code_fill(code, &remote->saved, remote->mask);
	return remote_thread_write(remote, at, code, bytes);
}

static int place(struct remote_thread *remote)
{
	struct maps maps;
	int err = maps_read(&maps, remote->tid);

	if (!err)
		err = remote_thread_place(remote, &maps);
	maps_release(&maps);
	return err == -ENOSPC ? place_over(remote) : err;
}

/*
 * From the PTRACE_EVENT_EXEC stop on, seized with PTRACE_O_TRACESYSGOOD: from here on the program's
 * thread makes calls for us. If we die, it begins its program by itself. 0; -ESRCH: it has ended;
 * -errno; -WM_E_FOREIGN_ARCH: it is no 64-bit program.
 */
static int calls_begin(struct soft_launch *launch)
{
	struct remote_thread *thread = &launch->thread;
	pid_t pid = launch->pid;
	int err;

	*thread = (struct remote_thread){ .tid = pid, .mem = -1, .seized = 1 };
	if (ptrace(PTRACE_GETREGS, pid, 0, &launch->regs) ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0, OPTIONS))
		return -errno;
	if ((launch->regs.cs & 0xff) != LONG_MODE_SELECTOR)
		return -WM_E_FOREIGN_ARCH;
	err = leave_call(pid);
	if (!err)
		err = halt_regs_get(pid, &thread->saved);
	if (err)
		return err;
	thread->saved.regs.orig_rax = (uint64_t)-1; /* no call is to be made again */
	launch->regs = thread->saved.regs;
	if (ptrace(PTRACE_GETSIGMASK, pid, sizeof(thread->mask), &thread->mask))
		return -errno;
	err = memory_open(thread);
	return err ? err : place(thread);
}

/* 0; or an error, the kernel's too. *result, which may be NULL, is what the call returned. */
static int call(struct soft_launch *launch, long number, const uint64_t arguments[6],
		uint64_t *result)
{
	long got;
	int err = remote_thread_syscall(&launch->thread, number, arguments, &got);

	if (err)
		return detail_set(launch->detail, err, "the program ended");
	if (result)
		*result = (uint64_t)got;
	return got < 0 && got >= -CALL_ERRORS ? (int)got : 0;
}

/* Restore all but the place where it continues, and three registers. */
static int calls_end(struct soft_launch *launch, uint64_t rip, uint64_t rdi, uint64_t rsi,
		     uint64_t rdx)
{
	struct remote_thread *thread = &launch->thread;
	int err;

	thread->saved.regs.rip = rip;
	thread->saved.regs.rdi = rdi;
	thread->saved.regs.rsi = rsi;
	thread->saved.regs.rdx = rdx;
	err = remote_thread_return(thread);
	return err ? err : remote_thread_vacate(thread);
}

/*
 * ---- descriptors for a program that has executed another: a socket pair of its own, whose one end
 * we duplicate. So it does not matter what it can see of the file system or the network.
 */

/* The bytes there meanwhile. */
struct passing {
	struct msghdr message;
	struct iovec body;
	_Alignas(struct cmsghdr) char rights[CMSG_SPACE(SOFT_PASSED * sizeof(int))];
	int ends[2];
	char byte;
};

/* Its descriptor, duplicated into this process. */
static int take_fd(pid_t pid, int fd)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), got;

	if (process < 0)
		return -errno;
	got = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	if (got < 0)
		got = -errno;
	close(process);
	return got;
}

/* Receive them there, by the message at `at`. */
static int fds_receive(struct soft_launch *launch, uint64_t at, int end)
{
	struct passing passing = {
		.message = { .msg_iov = (void *)(uintptr_t)(at + offsetof(struct passing, body)),
			     .msg_iovlen = 1,
			     .msg_control = (void *)(uintptr_t)(at +
								offsetof(struct passing, rights)),
			     .msg_controllen = sizeof(passing.rights) },
		.body = { (void *)(uintptr_t)(at + offsetof(struct passing, byte)), 1 },
	};
	const uint64_t arguments[6] = { (uint64_t)end, at, MSG_CMSG_CLOEXEC | MSG_DONTWAIT };
	const struct cmsghdr *head = (const struct cmsghdr *)passing.rights;
	int err = remote_thread_write(&launch->thread, at, &passing, sizeof(passing));

	if (!err)
		err = call(launch, SYS_recvmsg, arguments, NULL);
	if (!err)
		err = remote_thread_read(&launch->thread, at, &passing, sizeof(passing));
	if (err)
		return err;
	if (passing.message.msg_flags & MSG_CTRUNC ||
	    head->cmsg_len != CMSG_LEN(SOFT_PASSED * sizeof(int)))
		return -EMFILE;
	memcpy(launch->fds, CMSG_DATA(head), SOFT_PASSED * sizeof(int));
	return 0;
}

/* fds[] become launch->fds[] there; on execve(2) they would be closed. 0 or an error. */
static int fds_pass(struct soft_launch *launch, const int fds[SOFT_PASSED])
{
	uint64_t at = (launch->regs.rsp - BELOW_BYTES - sizeof(struct passing)) & ~UINT64_C(15);
	uint64_t pair = at + offsetof(struct passing, ends);
	const uint64_t arguments[6] = { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair };
	static const struct passing nothing;
	int ends[2], ours, err;

	err = call(launch, SYS_socketpair, arguments, NULL);
	if (!err)
		err = remote_thread_read(&launch->thread, pair, ends, sizeof(ends));
	if (err)
		return err;
	ours = take_fd(launch->pid, ends[0]);
	err = ours < 0 ? ours : fds_send(ours, "", 1, fds);
	if (!err)
		err = fds_receive(launch, at, ends[1]);
	if (ours >= 0)
		close(ours);
	for (int i = 0; i < 2; i++)
		call(launch, SYS_close, (const uint64_t[6]){ (uint64_t)ends[i] }, NULL);
	remote_thread_write(&launch->thread, at, &nothing, sizeof(nothing));
	return err;
}

/* ---- mapped ---- */

/* Why there was no room for so many bytes. */
static int no_room(const struct soft_launch *launch, int error, uint64_t bytes)
{
	if (error == -EPERM || error == -EACCES)
		return detail_set(
			launch->detail, error,
			"the program may not map the engine's code: its file system is mounted with "
			"noexec, or rules forbid it (PR_SET_MDWE, SELinux)");
	return detail_set(launch->detail, error,
			  "the program could not map %" PRIu64 " bytes for its trail", bytes);
}

/* The engine would find out too late for another way to record it. */
static int check_room(const struct soft_launch *launch, const struct soft_channel *channel)
{
	const struct {
		int resource;
		const char *what;
		uint64_t needed;
	} limits[] = {
		{ RLIMIT_AS, "addresses (RLIMIT_AS, ulimit -v)",
		  channel->bytes + ENGINE_ADDRESS_BYTES },
		{ RLIMIT_DATA, "data (RLIMIT_DATA, ulimit -d)", ENGINE_ADDRESS_BYTES },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

		prlimit(launch->pid, limits[i].resource, NULL, &limit);
		if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < limits[i].needed)
			return detail_set(launch->detail, -ENOMEM,
					  "the program may have %" PRIu64
					  " bytes of %s, and %" PRIu64 " are needed for its trail",
					  (uint64_t)limit.rlim_cur, limits[i].what,
					  limits[i].needed);
	}
	return 0;
}

/* mmap(2); *at is where; before, where it is to be, or with MAP_FIXED must be. */
static int map(struct soft_launch *launch, uint64_t *at, uint64_t bytes, int prot, int flags,
	       int fd, uint64_t offset)
{
	const uint64_t arguments[6] = {
		*at, bytes, (uint64_t)prot, (uint64_t)flags, (uint64_t)(int64_t)fd, offset
	};
	int err = call(launch, SYS_mmap, arguments, at);

	if (!err)
		return 0;
	*at = 0;
	/* it ended, or the call could not be made at all */
	return err == -ESRCH || err == -EINTR || err == -ETIMEDOUT ? err
								   : no_room(launch, err, bytes);
}

static int map_segment(struct soft_launch *launch, const struct soft_segment *segment)
{
	static const char zeros[PAGE];
	uint64_t at = launch->engine + segment->at;
	uint64_t inside = segment->filled % PAGE;
	uint64_t of_file = segment->filled - inside + (inside ? PAGE : 0), end = at + of_file;
	int err = 0;

	if (of_file)
		err = map(launch, &at, of_file, segment->prot, MAP_PRIVATE | MAP_FIXED,
			  launch->fds[1], segment->offset);
	if (!err && of_file < segment->bytes)
		err = map(launch, &end, segment->bytes - of_file, segment->prot,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (err || !inside || !(segment->prot & PROT_WRITE))
		return err;
	err = remote_thread_write(&launch->thread, at + segment->filled, zeros, PAGE - inside);
	return err ? detail_set(launch->detail, err, "the engine could not be written") : 0;
}

static int map_engine(struct soft_launch *launch, const struct soft_image *image)
{
	int err = map(launch, &launch->engine, image->bytes, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (size_t i = 0; i < image->count && !err; i++)
		err = map_segment(launch, &image->segments[i]);
	return err;
}

/* The program never sees them. */
static int close_fds(struct soft_launch *launch)
{
	int err = 0;

	for (size_t i = 0; i < SOFT_PASSED && !err; i++)
		err = call(launch, SYS_close, (const uint64_t[6]){ (uint64_t)launch->fds[i] },
			   NULL);
	return err;
}

/* Below the program's stack, which is its own. 0 or -errno; *at is where. */
static int report(const struct soft_launch *launch, const struct soft_channel *channel, int is_far,
		  uint64_t *at)
{
	const struct user_regs_struct *regs = &launch->regs;
	const struct engine_boot boot = {
		.regs = { .gpr = { regs->rax, regs->rcx, regs->rdx, regs->rbx, regs->rsp, regs->rbp,
				   regs->rsi, regs->rdi, regs->r8, regs->r9, regs->r10, regs->r11,
				   regs->r12, regs->r13, regs->r14, regs->r15 },
			  .rip = regs->rip,
			  .rflags = regs->eflags },
		.bytes = channel->bytes,
		.control_at = launch->control,
		.fd_close = { -1, -1 },
		.policy = channel->sizes.policy,
		.flags = ENGINE_BOOT_EVENTS | (is_far ? ENGINE_BOOT_FAR : 0),
	};

	soft_channel_head(channel)->control_at = launch->control;
	*at = (regs->rsp - BELOW_BYTES - sizeof(boot)) & ~UINT64_C(15);
	return remote_thread_write(&launch->thread, *at, &boot, sizeof(boot));
}

static int map_all(struct soft_launch *launch, const struct soft_parts *parts)
{
	const struct soft_channel *channel = parts->channel;
	const struct soft_image *image = parts->image;
	int is_far = 0;
	uint64_t boot_at;
	int err = check_room(launch, channel);

	if (!err) {
		launch->engine = soft_image_place(launch->pid, &is_far);
		err = map_engine(launch, image);
	}
	if (!err) {
		launch->control = launch->engine + image->bytes;
		err = map(launch, &launch->control, PAGE, PROT_READ, MAP_SHARED, launch->fds[2], 0);
	}
	if (!err) {
		launch->channel = launch->control + PAGE;
		err = map(launch, &launch->channel, channel->bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED, launch->fds[0], 0);
	}
	if (!err)
		err = close_fds(launch);
	if (err)
		return err;
	err = report(launch, channel, is_far, &boot_at);
	if (!err)
		err = calls_end(launch, launch->engine + image->entry, launch->channel,
				launch->engine, boot_at);
	return err ? detail_set(launch->detail, err, "the program can't be entered") : 0;
}

/*
 * Whether the process, stopped behind execve(2), has gained privileges by the program (AT_SECURE),
 * or may have: then we may not look at it. Or an error: it can't be known.
 */
static int has_gained(pid_t pid)
{
	uint64_t gained = 1;
	int err = target_auxv(pid, AT_SECURE, &gained);

	return err < 0 ? err : gained != 0;
}

int soft_launch_enter(struct soft_launch *launch, const struct soft_parts *parts,
		      struct detail detail)
{
	int err = has_gained(launch->pid);

	launch->detail = detail;
	detail_set(detail, 0, "%s", "");
	if (err < 0)
		return detail_set(detail, err, "process %d", (int)launch->pid);
	if (err)
		return detail_set(detail, -WM_E_ENGINE_REFUSED,
				  "the program gains privileges as it is executed");
	err = calls_begin(launch);
	if (err == -WM_E_FOREIGN_ARCH)
		return err;
	if (err)
		return detail_set(detail, err, "the program can't be entered");
	return map_all(launch, parts);
}

int soft_launch_go(struct soft_launch *launch)
{
	return remote_thread_end(&launch->thread);
}

/* The process has nothing of the engine, and the program continues natively. */
static void undo(struct soft_launch *launch, const struct soft_parts *parts)
{
	const uint64_t mapped[][6] = { { launch->engine, parts->image->bytes },
				       { launch->control, PAGE },
				       { launch->channel, parts->channel->bytes } };
	const struct user_regs_struct *regs = &launch->regs;

	for (size_t i = 0; i < sizeof(mapped) / sizeof(mapped[0]); i++)
		if (mapped[i][0])
			call(launch, SYS_munmap, mapped[i], NULL);
	for (int i = 0; i < SOFT_PASSED; i++)
		if (launch->fds[i] >= 0)
			call(launch, SYS_close, (const uint64_t[6]){ (uint64_t)launch->fds[i] },
			     NULL);
	calls_end(launch, regs->rip, regs->rdi, regs->rsi, regs->rdx);
}

int soft_launch_again(pid_t pid, const struct soft_parts *parts)
{
	const int fds[SOFT_PASSED] = { parts->channel->fd, parts->image->fd, parts->control->fd };
	struct soft_launch launch = { .pid = pid, .fds = { -1, -1, -1 } };
	int err = has_gained(pid);

	if (err) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return err > 0 ? -EPERM : -EACCES;
	}
	/* of vfork(2): it may die of what we and the engine call */
	if (target_filters(pid) > target_filters(gettid())) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return -WM_E_SECCOMP;
	}
	err = calls_begin(&launch);
	if (!err) {
		err = fds_pass(&launch, fds);
		if (!err)
			err = map_all(&launch, parts);
		if (err)
			undo(&launch, parts);
	}
	remote_thread_end(&launch.thread);
	return err == -EPERM ? -EACCES : err;
}
