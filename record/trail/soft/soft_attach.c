/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_attach.h"

#include "arch/loader.h"
#include "record/trail/soft/soft_leave.h"
#include "target/process/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <linux/rseq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define STOP_MS 10000
#define CALL_ERRORS 4095
#define CALL_STACK_BYTES 64 /* below the engine's stack: where a call of the program's returns to */
#define GET_RSEQ_CONFIGURATION 0x420f /* linux/ptrace.h, from Linux 5.13 */

struct rseq_configuration {
	uint64_t area;
	uint32_t bytes, signature, flags, pad;
};

static struct remote_thread *first_of(const struct soft_attach *attach)
{
	return &attach->stopped.threads[0];
}

/* ---- may it be taken? ---- */

/* Whether a line of /proc/TID/status has that word. */
static int status_has(pid_t tid, const char *name, const char *word)
{
	char path[64], line[4096];
	int has = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && !has && fgets(line, sizeof(line), file))
		has = !strncmp(line, name, strlen(name)) && strstr(line, word) != NULL;
	if (file)
		fclose(file);
	return has;
}

static int check_thread(const struct soft_attach *attach, const struct remote_thread *thread)
{
	struct detail detail = attach->detail;
	pid_t tid = thread->tid;

	if (target_status_number(tid, "Seccomp") > 0)
		return detail_set(
			detail, -WM_E_ENGINE_REFUSED,
			"thread %d is under a seccomp filter (seccomp(2)), which may refuse the "
			"engine's system calls",
			tid);
	if (status_has(tid, "x86_Thread_features:", "shstk"))
		return detail_set(detail, -WM_E_ENGINE_REFUSED, "thread %d has a shadow stack",
				  tid);
	if (reach_is_agents(attach->stopped.pid, tid))
		return detail_set(
			detail, -WM_E_ENGINE_REFUSED,
			"markers or probes are recorded in it (thread %d): end that recording first",
			tid);
	if (thread->saved.regs.gs_base)
		return detail_set(detail, -WM_E_ENGINE_REFUSED,
				  "thread %d uses the gs segment, which the engine needs", tid);
	return 0;
}

static int check(const struct soft_attach *attach)
{
	int err = 0;

	for (size_t i = 0; i < attach->stopped.count && !err; i++)
		err = check_thread(attach, &attach->stopped.threads[i]);
	return err;
}

/* ---- borrowed calls ---- */

static int call(const struct soft_attach *attach, long number, const uint64_t arguments[6],
		uint64_t *result)
{
	long got;
	int err = remote_thread_syscall(first_of(attach), number, arguments, &got);

	if (err)
		return detail_set(attach->detail, err, "thread %d does not make our calls",
				  first_of(attach)->tid);
	*result = (uint64_t)got;
	return got < 0 && got >= -CALL_ERRORS ? (int)got : 0;
}

static int no_room(const struct soft_attach *attach, int err, uint64_t bytes)
{
	static const struct {
		const char *name, *words;
	} limits[] = { { "Max address space", "addresses (RLIMIT_AS, ulimit -v)" },
		       { "Max data size", "data (RLIMIT_DATA, ulimit -d)" } };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t limit = target_limit(attach->stopped.pid, limits[i].name);

		if (limit == UINT64_MAX)
			continue;
		return detail_set(attach->detail, err,
				  "it may have %" PRIu64 " bytes of %s, and %" PRIu64
				  " more are needed for its trail; raise it: prlimit --pid %d",
				  limit, limits[i].words, bytes, attach->stopped.pid);
	}
	return detail_set(attach->detail, err, "it can't map %" PRIu64 " bytes for its trail",
			  bytes);
}

static int map(const struct soft_attach *attach, uint64_t bytes, int prot, int flags, uint64_t fd,
	       uint64_t *at)
{
	const uint64_t arguments[6] = { *at, bytes, (uint64_t)prot, (uint64_t)flags, fd, 0 };
	int err = call(attach, SYS_mmap, arguments, at);

	if (!err)
		return 0;
	*at = 0;
	if (prot & PROT_EXEC && (err == -EACCES || err == -EPERM))
		return detail_set(attach->detail, -WM_E_ENGINE_REFUSED,
				  "it may not run memory that was written (PR_SET_MDWE, SELinux)");
	return no_room(attach, err, bytes);
}

/* ---- the engine's file ---- */

static int write_segment(const struct soft_attach *attach, const struct soft_image *image,
			 const struct soft_segment *segment)
{
	char *bytes = segment->filled ? malloc(segment->filled) : NULL;
	uint32_t pages = (uint32_t)(attach->engine_bytes / PAGE);
	int err = 0;

	if (segment->filled && !bytes)
		return -ENOMEM;
	if (bytes && pread(image->fd, bytes, segment->filled, (off_t)segment->offset) !=
			     (ssize_t)segment->filled)
		err = -EIO;
	if (!err && bytes && !segment->at && segment->filled >= SOFT_MARK_AT + sizeof(pages))
		memcpy(bytes + SOFT_MARK_AT, &pages, sizeof(pages));
	if (!err && bytes)
		err = remote_thread_write(first_of(attach), attach->engine + segment->at, bytes,
					  segment->filled);
	free(bytes);
	return err ? detail_set(attach->detail, err, "the engine can't be copied into it") : 0;
}

/* With all that a process maps locked, what the engine maps and hardly touches would be memory. */
static long locked_kib(const struct soft_attach *attach)
{
	return target_status_number(first_of(attach)->tid, "VmLck");
}

static int map_engine(struct soft_attach *attach, const struct soft_image *image)
{
	uint64_t table_bytes = attach->stopped.count * sizeof(struct engine_taken) +
			       sizeof(struct engine_boot);
	long locked = locked_kib(attach);
	int err;

	attach->engine_bytes = image->bytes + (table_bytes + PAGE - 1) / PAGE * PAGE;
	attach->engine = soft_image_place(first_of(attach)->tid, &attach->is_far);
	/* the engine protects its parts by itself, which is a call of the thread's less for each */
	err = map(attach, attach->engine_bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
		  MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, &attach->engine);
	attach->table = attach->engine + image->bytes;
	if (!err && locked_kib(attach) != locked)
		return detail_set(attach->detail, -WM_E_ENGINE_REFUSED,
				  "it locks all memory that it maps (mlockall(2) with MCL_FUTURE)");
	for (size_t i = 0; i < image->count && !err; i++)
		err = write_segment(attach, image, &image->segments[i]);
	return err;
}

/* ---- the channel ---- */

/* A memfd of the process's own, and ours by way of /proc. */
static int memfd_open(const struct soft_attach *attach, uint64_t *theirs)
{
	const uint64_t arguments[6] = { attach->table, MFD_CLOEXEC | MFD_ALLOW_SEALING };
	char path[64];
	int err, fd;

	err = remote_thread_write(first_of(attach), attach->table, SOFT_CHANNEL_NAME,
				  sizeof(SOFT_CHANNEL_NAME));
	if (!err)
		err = call(attach, SYS_memfd_create, arguments, theirs);
	if (err)
		return detail_set(attach->detail, err, "it can't have a memfd for its trail");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", first_of(attach)->tid, (int)*theirs);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? detail_set(attach->detail, -errno, "%s", path) : fd;
}

static int map_channel(struct soft_attach *attach, struct soft_channel *channel,
		       const struct soft_sizes *sizes)
{
	uint64_t theirs = UINT64_MAX, result;
	int fd = memfd_open(attach, &theirs);
	int err = soft_channel_open_at(channel, sizes, fd);

	if (!err) {
		soft_channel_fill(channel);
		attach->channel_at = attach->engine + attach->engine_bytes;
	}
	if (!err)
		err = map(attach, channel->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs,
			  &attach->channel_at);
	if (!err) {
		attach->channel_fd = (int32_t)theirs;
	} else if (theirs != UINT64_MAX && (int64_t)theirs >= 0) {
		const uint64_t arguments[6] = { theirs };

		call(attach, SYS_close, arguments, &result);
	}
	return err;
}

/* ---- opened ---- */

/* The registered rseq(2) area. remote_thread_stop() has led threads out of its sequences. */
static void note_rseq(pid_t tid, struct engine_taken *taken)
{
	struct rseq_configuration conf = { 0 };

	if (ptrace(GET_RSEQ_CONFIGURATION, tid, sizeof(conf), &conf) <= 0)
		return;
	taken->rseq_at = conf.area;
	taken->rseq_bytes = conf.bytes;
	taken->rseq_signature = conf.signature;
}

/*
 * Calls that the engine makes unchanged, so that a thread can stay in one. The engine starts the
 * others again.
 */
static int is_plain(long number)
{
	switch (number) {
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigpending:
	case SYS_rt_sigtimedwait:
	case SYS_rt_sigreturn:
	case SYS_sigaltstack:
	case SYS_prctl:
	case SYS_seccomp:
	case SYS_arch_prctl:
	case SYS_prlimit64:
	case SYS_setrlimit:
	case SYS_getrlimit:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_madvise:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_mlockall:
	case SYS_rseq:
		return 0;
	default:
		return 1;
	}
}

static void note_thread(const struct remote_thread *thread, struct engine_taken *taken)
{
	struct halt_regs again = thread->saved;
	const struct user_regs_struct *regs = &again.regs;

	remote_regs_anew(&again);
	*taken = (struct engine_taken){
		.mask = thread->mask,
		.regs = {
			.gpr = { regs->rax, regs->rcx, regs->rdx, regs->rbx, regs->rsp, regs->rbp,
				 regs->rsi, regs->rdi, regs->r8, regs->r9, regs->r10, regs->r11,
				 regs->r12, regs->r13, regs->r14, regs->r15 },
			.rip = regs->rip,
			.rflags = regs->eflags,
		},
	};
	if (remote_regs_in_call(&thread->saved) &&
	    is_plain(remote_regs_call_number(&thread->saved)))
		taken->call_next = halt_pc(&thread->saved);
	note_rseq(thread->tid, taken);
}

static int read_taken(const struct soft_attach *attach)
{
	return remote_thread_read(first_of(attach), attach->table, attach->taken,
				  attach->stopped.count * sizeof(*attach->taken));
}

/* The engine has begun: it has put its places into the channel. */
static int read_places(struct soft_attach *attach, const struct engine_channel *head)
{
	attach->places = head->places;
	if (soft_threads_may_lead(&attach->places, attach->engine, attach->engine_bytes))
		return 0;
	attach->places = (struct engine_places){ 0 };
	return -EPROTO;
}

static int open_engine(struct soft_attach *attach, const struct soft_channel *channel,
		       const struct soft_image *image)
{
	struct engine_channel *head = soft_channel_head(channel);
	size_t bytes = attach->stopped.count * sizeof(*attach->taken);
	const struct soft_way way = { .at = attach->engine + image->entry,
				      .first = attach->channel_at,
				      .second = attach->engine,
				      .third = attach->table + bytes,
				      .head = head };
	const struct engine_boot boot = {
		.regs = { .rip = first_of(attach)->at + remote_restore_offset() },
		.bytes = channel->bytes,
		.taken_at = attach->table,
		.taken_count = (uint32_t)attach->stopped.count,
		.fd_close = { attach->channel_fd, -1 },
		.policy = channel->sizes.policy,
		.flags = ENGINE_BOOT_EVENTS | ENGINE_BOOT_TAKEN |
			 (attach->is_far ? ENGINE_BOOT_FAR : 0),
	};
	int err;

	attach->taken = calloc(attach->stopped.count, sizeof(*attach->taken));
	if (!attach->taken)
		return -ENOMEM;
	for (size_t i = 0; i < attach->stopped.count; i++)
		note_thread(&attach->stopped.threads[i], &attach->taken[i]);
	head->taken_at = attach->table;
	head->taken_count = (uint32_t)attach->stopped.count;
	err = remote_thread_write(first_of(attach), attach->table, attach->taken, bytes);
	if (!err)
		err = remote_thread_write(first_of(attach), attach->table + bytes, &boot,
					  sizeof(boot));
	if (!err)
		err = soft_threads_lead(first_of(attach), &way);
	if (!err)
		err = read_places(attach, head);
	if (!err)
		err = head->error;
	if (!err)
		err = read_taken(attach);
	if (err == -EADDRNOTAVAIL || err == -ENOMEM)
		return no_room(attach, -ENOMEM, UINT64_C(32) << 30);
	if (err == -ENOENT || err == -EACCES)
		return detail_set(attach->detail, -WM_E_ENGINE_REFUSED,
				  "it cannot read its own /proc, as the engine must: %s",
				  strerror(-err));
	return err ? detail_set(attach->detail, err, "the engine can't begin in it") : 0;
}

/* ---- taken ---- */

static uint64_t stack_of(const struct soft_attach *attach, size_t index)
{
	uint64_t stack = 0;

	remote_thread_read(first_of(attach), attach->taken[index].thread + ENGINE_THREAD_STACK,
			   &stack, sizeof(stack));
	return stack;
}

/* All but the first. */
static int lead_others(const struct soft_attach *attach, struct engine_channel *head)
{
	size_t count = attach->stopped.count - 1;
	struct soft_way *ways = calloc(count, sizeof(*ways));
	int err;

	if (!ways)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		ways[i] = (struct soft_way){
			.at = attach->places.take,
			.stack = stack_of(attach, i + 1),
			.first = attach->table + (i + 1) * sizeof(struct engine_taken),
			.head = head,
		};
	err = soft_threads_lead_all(attach->stopped.threads + 1, ways, count);
	free(ways);
	return err;
}

/*
 * The first was taken when it had made all ready, and stood in our own code until then, which goes.
 */
static int take_all(struct soft_attach *attach, const struct soft_channel *channel)
{
	struct remote_thread *first = first_of(attach);
	int err = remote_thread_vacate(first);

	if (!err && attach->stopped.count > 1)
		err = lead_others(attach, soft_channel_head(channel));
	if (read_taken(attach) && !err)
		err = -ESRCH;
	for (size_t i = 0; i < attach->stopped.count && !err; i++) {
		err = attach->taken[i].error;
		if (err)
			detail_set(attach->detail, err, "the engine can't take thread %d",
				   attach->stopped.threads[i].tid);
	}
	return err;
}

/* ---- undone ---- */

void soft_attach_undo(struct soft_attach *attach, const struct soft_channel *channel)
{
	struct engine_channel *head = channel->base ? soft_channel_head(channel) : NULL;
	pid_t pid = attach->stopped.pid;

	for (size_t i = 0; attach->taken && i < attach->stopped.count && head; i++) {
		const struct soft_way way = { .at = attach->places.undo,
					      .stack = stack_of(attach, i) - CALL_STACK_BYTES,
					      .first = attach->taken[i].thread,
					      .head = head };

		if (attach->taken[i].is_taken && attach->places.undo)
			soft_threads_lead(&attach->stopped.threads[i], &way);
	}
	free(attach->taken);
	attach->taken = NULL;
	soft_threads_end(&attach->stopped);
	if (pid && attach->engine)
		soft_leave_unmap(pid, &(struct soft_left){ .engine = attach->engine,
							   .engine_bytes = attach->engine_bytes,
							   .channel_at = attach->channel_at,
							   .channel_bytes = channel->bytes,
							   .places = &attach->places });
}

int soft_attach_enter(struct soft_attach *attach, pid_t pid, struct soft_control *control,
		      struct soft_channel *channel, const struct soft_sizes *sizes,
		      const struct soft_image *image, struct detail detail)
{
	struct maps maps = { 0 };
	int err;

	*attach = (struct soft_attach){ .detail = detail };
	*channel = (struct soft_channel){ .fd = -1 };
	err = soft_leave_before(pid, image, detail);
	if (!err)
		err = soft_threads_stop(&attach->stopped, pid, STOP_MS, detail);
	if (err)
		return err;
	err = check(attach);
	if (!err)
		err = maps_read(&maps, first_of(attach)->tid);
	if (!err)
		err = remote_thread_place(first_of(attach), &maps);
	if (err == -EBUSY)
		detail_set(detail, err, "another tool is entering the process");
	maps_release(&maps);
	if (!err)
		err = map_engine(attach, image);
	if (!err)
		err = map_channel(attach, channel, sizes);
	if (!err) {
		soft_control_open_in(control, channel);
		soft_control_hold(control);
	}
	if (!err)
		err = open_engine(attach, channel, image);
	if (!err)
		err = take_all(attach, channel);
	if (err)
		soft_attach_undo(attach, channel);
	return err;
}

/* ---- let go ---- */

/* In its system call again: as if the engine had made it. */
static int call_again(const struct soft_attach *attach, size_t index)
{
	struct remote_thread *thread = &attach->stopped.threads[index];
	struct user_regs_struct *regs = &thread->saved.regs;
	uint64_t stack = stack_of(attach, index) - CALL_STACK_BYTES;
	int err = remote_thread_write(first_of(attach), stack, &attach->places.call_back,
				      sizeof(uint64_t));

	if (err)
		return err;
	regs->rip = regs->rcx = attach->places.call_done;
	regs->rsp = stack;
	regs->r11 = regs->eflags = 0x202;
	regs->gs_base = attach->taken[index].thread;
	thread->mask &= ~attach->places.own_signals;
	return remote_thread_end(thread);
}

static int let_go(const struct soft_attach *attach, size_t index, struct engine_channel *head)
{
	struct remote_thread *thread = &attach->stopped.threads[index];

	if (attach->taken[index].call_next && !call_again(attach, index))
		return 0;
	/* by itself, from where it is parked */
	soft_threads_unpark(head);
	thread->entered = 0;
	return remote_thread_end(thread);
}

int soft_attach_go(struct soft_attach *attach, const struct soft_channel *channel)
{
	struct engine_channel *head = soft_channel_head(channel);
	const struct soft_way way = { .at = attach->places.commit,
				      .stack = attach->places.stack,
				      .first = attach->taken[0].thread,
				      .head = head };
	int err = soft_threads_lead(first_of(attach), &way);

	if (!err && __atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != ENGINE_RUNS)
		err = head->error < 0 ? head->error : -WM_E_ENGINE_REFUSED;
	if (err) {
		soft_attach_undo(attach, channel);
		return err;
	}
	for (size_t i = attach->stopped.count; i-- > 0;)
		let_go(attach, i, head);
	free(attach->taken);
	attach->taken = NULL;
	soft_threads_end(&attach->stopped);
	return 0;
}

int soft_attach_try(pid_t pid, struct detail detail)
{
	const struct soft_sizes sizes = soft_sizes_for(0, 0);
	struct soft_attach attach = { 0 };
	struct soft_channel channel = { .fd = -1 };
	struct soft_control control = { .fd = -1 };
	struct soft_image image;
	int err = soft_image_find(&image, NULL, detail.text, detail.bytes);

	if (!err)
		err = soft_attach_enter(&attach, pid, &control, &channel, &sizes, &image, detail);
	if (!err)
		soft_attach_undo(&attach, &channel);
	soft_control_close(&control);
	soft_channel_close(&channel);
	soft_image_close(&image);
	return err;
}
