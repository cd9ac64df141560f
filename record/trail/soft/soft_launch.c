/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_launch.h"

#include "record/trail/launch_gate.h"
#include "record/trail/soft/soft_asked.h"
#include "record/trail/soft/soft_sanitized.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define BELOW_BYTES 1024u				  /* of the stack, where nothing is yet */
#define OPTIONS (SOFT_REMOTE_OPTIONS | PTRACE_O_EXITKILL) /* until it has executed the program */
#define MMAP_ERRORS 4095

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

static int gate_send(int gate, const int fds[SOFT_PASSED])
{
	pid_t self = getpid();
	struct iovec body = { &self, sizeof(self) };
	union rights rights = { .head = { .cmsg_len = CMSG_LEN(SOFT_PASSED * sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	struct msghdr message = { .msg_iov = &body,
				  .msg_iovlen = 1,
				  .msg_control = rights.bytes,
				  .msg_controllen = sizeof(rights.bytes) };

	memcpy(CMSG_DATA(&rights.head), fds, SOFT_PASSED * sizeof(int));
	return sendmsg(gate, &message, MSG_NOSIGNAL) == sizeof(self) ? 0 : -errno;
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
	char byte;
	int err;

	answer.error = gate_receive(gate, &tracer, answer.fds);
	if (!answer.error)
		prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
	if (write(gate, &answer, sizeof(answer)) == sizeof(answer) && !answer.error &&
	    read(gate, &byte, 1) == 1)
		execv(path, argv);
	err = errno;
	(void)!send(gate, &err, sizeof(err), MSG_NOSIGNAL);
	_exit(127);
}

int soft_launch_await(struct soft_launch *launch, pid_t pid, int gate,
		      const struct soft_parts *parts)
{
	const int fds[SOFT_PASSED] = { parts->channel->fd, parts->image->fd, parts->control->fd };
	struct answer answer;
	int err;

	*launch = (struct soft_launch){ .pid = pid };
	err = gate_send(gate, fds);
	if (err)
		return err;
	if (recv(gate, &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
		return -ECHILD;
	if (answer.error)
		return -answer.error;
	memcpy(launch->fds, answer.fds, sizeof(launch->fds));
	return gate_pass(gate, pid, OPTIONS);
}

/* ---- mapped ---- */

struct entering {
	struct soft_launch *launch;
	char *detail;
	size_t bytes;
};

static int fail(const struct entering *entering, int error, const char *form, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(const struct entering *entering, int error, const char *form, ...)
{
	va_list arguments;

	va_start(arguments, form);
	vsnprintf(entering->detail, entering->bytes, form, arguments);
	va_end(arguments);
	return error;
}

/* Why there was no room for so many bytes. */
static int no_room(const struct entering *entering, int error, uint64_t bytes)
{
	if (error == -EPERM || error == -EACCES)
		return fail(
			entering, error,
			"the program may not map the engine's code: its file system is mounted with "
			"noexec, or rules forbid it (PR_SET_MDWE, SELinux)");
	return fail(entering, error, "the program could not map %" PRIu64 " bytes for its trail",
		    bytes);
}

/* The engine would find out too late for another way to record it. */
static int check_room(const struct entering *entering, const struct soft_channel *channel)
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

		prlimit(entering->launch->pid, limits[i].resource, NULL, &limit);
		if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < limits[i].needed)
			return fail(entering, -ENOMEM,
				    "the program may have %" PRIu64 " bytes of %s, and %" PRIu64
				    " are needed for its trail",
				    (uint64_t)limit.rlim_cur, limits[i].what, limits[i].needed);
	}
	return 0;
}

/* mmap(2); *at is where; before, where it is to be, or with MAP_FIXED must be. */
static int map(const struct entering *entering, uint64_t *at, uint64_t bytes, int prot, int flags,
	       int fd, uint64_t offset)
{
	const uint64_t arguments[6] = {
		*at, bytes, (uint64_t)prot, (uint64_t)flags, (uint64_t)(int64_t)fd, offset
	};
	int64_t result;
	int err = soft_remote_call(&entering->launch->remote, SYS_mmap, arguments, &result);

	*at = 0;
	if (err)
		return fail(entering, err, "the program ended");
	if (result < 0 && result >= -MMAP_ERRORS)
		return no_room(entering, (int)result, bytes);
	*at = (uint64_t)result;
	return 0;
}

static int map_segment(const struct entering *entering, const struct soft_segment *segment)
{
	static const char zeros[PAGE];
	uint64_t at = entering->launch->engine + segment->at;
	uint64_t inside = segment->filled % PAGE;
	uint64_t of_file = segment->filled - inside + (inside ? PAGE : 0), end = at + of_file;
	int err = 0;

	if (of_file)
		err = map(entering, &at, of_file, segment->prot, MAP_PRIVATE | MAP_FIXED,
			  entering->launch->fds[1], segment->offset);
	if (!err && of_file < segment->bytes)
		err = map(entering, &end, segment->bytes - of_file, segment->prot,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (err || !inside || !(segment->prot & PROT_WRITE))
		return err;
	err = soft_remote_write(&entering->launch->remote, at + segment->filled, zeros,
				PAGE - inside);
	return err ? fail(entering, err, "the engine could not be written") : 0;
}

static int map_engine(const struct entering *entering, const struct soft_image *image)
{
	struct soft_launch *launch = entering->launch;
	int err = map(entering, &launch->engine, image->bytes, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (size_t i = 0; i < image->count && !err; i++)
		err = map_segment(entering, &image->segments[i]);
	return err;
}

/* The program never sees them. */
static int close_fds(const struct entering *entering)
{
	int err = 0;

	for (size_t i = 0; i < SOFT_PASSED && !err; i++) {
		const uint64_t arguments[6] = { (uint64_t)entering->launch->fds[i] };
		int64_t result;

		err = soft_remote_call(&entering->launch->remote, SYS_close, arguments, &result);
	}
	return err ? fail(entering, err, "the program ended") : 0;
}

/* Below the program's stack, which is its own. 0 or -errno; *at is where. */
static int report(const struct soft_launch *launch, const struct soft_channel *channel, int is_far,
		  uint64_t *at)
{
	const struct user_regs_struct *regs = &launch->remote.regs;
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
	return soft_remote_write(&launch->remote, *at, &boot, sizeof(boot));
}

static int map_all(const struct entering *entering, const struct soft_parts *parts)
{
	const struct soft_channel *channel = parts->channel;
	const struct soft_image *image = parts->image;
	struct soft_launch *launch = entering->launch;
	int is_far = soft_is_sanitized(launch->pid);
	uint64_t boot_at;
	int err = check_room(entering, channel);

	if (!err) {
		launch->engine = soft_channel_place(is_far);
		err = map_engine(entering, image);
	}
	if (!err) {
		launch->control = launch->engine + image->bytes;
		err = map(entering, &launch->control, PAGE, PROT_READ, MAP_SHARED, launch->fds[2],
			  0);
	}
	if (!err) {
		launch->channel = launch->control + PAGE;
		err = map(entering, &launch->channel, channel->bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED, launch->fds[0], 0);
	}
	if (!err)
		err = close_fds(entering);
	if (err)
		return err;
	err = report(launch, channel, is_far, &boot_at);
	if (!err)
		err = soft_remote_end(&launch->remote, launch->engine + image->entry,
				      launch->channel, launch->engine, boot_at);
	return err ? fail(entering, err, "the program can't be entered") : 0;
}

int soft_launch_enter(struct soft_launch *launch, const struct soft_parts *parts, char *detail,
		      size_t bytes)
{
	const struct entering entering = { launch, detail, bytes };
	int err;

	detail[0] = '\0';
	err = asked_has_gained(launch->pid);
	if (err < 0)
		return fail(&entering, err, "process %d", (int)launch->pid);
	if (err)
		return fail(&entering, -WM_E_ENGINE_REFUSED,
			    "the program gains privileges as it is executed");
	err = soft_remote_begin(&launch->remote, launch->pid);
	if (err == -WM_E_FOREIGN_ARCH)
		return err;
	if (err)
		return fail(&entering, err, "the program can't be entered");
	return map_all(&entering, parts);
}

int soft_launch_go(struct soft_launch *launch)
{
	return soft_remote_let_go(&launch->remote);
}

/* The process has nothing of the engine, and the program continues natively. */
static void undo(struct soft_launch *launch, const struct soft_parts *parts)
{
	const uint64_t mapped[][6] = { { launch->engine, parts->image->bytes },
				       { launch->control, PAGE },
				       { launch->channel, parts->channel->bytes } };
	int64_t result;

	for (size_t i = 0; i < sizeof(mapped) / sizeof(mapped[0]); i++)
		if (mapped[i][0])
			soft_remote_call(&launch->remote, SYS_munmap, mapped[i], &result);
	for (int i = 0; i < SOFT_PASSED; i++)
		if (launch->fds[i] >= 0)
			soft_remote_call(&launch->remote, SYS_close,
					 (const uint64_t[6]){ (uint64_t)launch->fds[i] }, &result);
	soft_remote_end(&launch->remote, launch->remote.regs.rip, launch->remote.regs.rdi,
			launch->remote.regs.rsi, launch->remote.regs.rdx);
}

int soft_launch_again(pid_t pid, const struct soft_parts *parts)
{
	const int fds[SOFT_PASSED] = { parts->channel->fd, parts->image->fd, parts->control->fd };
	struct soft_launch launch = { .pid = pid, .fds = { -1, -1, -1 } };
	char detail[400];
	const struct entering entering = { &launch, detail, sizeof(detail) };
	int err = asked_has_gained(pid);

	if (err) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return err > 0 ? -EPERM : -EACCES;
	}
	/* of vfork(2): it may die of what we and the engine call */
	if (target_filters(pid) > target_filters(gettid())) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return -WM_E_SECCOMP;
	}
	err = soft_remote_begin(&launch.remote, pid);
	if (!err) {
		err = soft_pass(&launch.remote, fds, launch.fds);
		if (!err)
			err = map_all(&entering, parts);
		if (err)
			undo(&launch, parts);
	}
	soft_remote_let_go(&launch.remote);
	return err == -EPERM ? -EACCES : err;
}
