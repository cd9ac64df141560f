/* SPDX-License-Identifier: MIT */
#include "target/process/target.h"
#include "base/array.h"
#include "base/elf.h"
#include "base/lack.h"
#include "target/process/program.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define LIVE_TRIES 20 /* to find a thread that lives where threads end all the time */
#define LINK_BYTES 64 /* of a descriptor: longer ones are of other files */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h of the kernel */

/* By errno, why a file of a process can't be opened: the process has ended, or /proc is missing. */
static int file_error(void)
{
	if (errno != ENOENT)
		return -errno;
	return access("/proc/self/stat", R_OK) ? -WM_E_NO_PROC : -ESRCH;
}

/* A whole small file of /proc, NUL-terminated. Its length, or -errno. */
static int file_read(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t got = 0;

	if (fd < 0)
		return file_error();
	while (bytes < room - 1 && (got = read(fd, text + bytes, room - 1 - bytes)) > 0)
		bytes += (size_t)got;
	if (got < 0)
		got = -errno;
	close(fd);
	text[bytes] = '\0';
	return got < 0 ? (int)got : (int)bytes;
}

/* What follows "NAME:" in the text of a status file, or NULL. */
static const char *status_value(const char *text, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, bytes) && line[bytes] == ':')
			return line + bytes + 1;
	}
	return NULL;
}

/* Number `which` of a line, from 0; the last one there is where there are fewer. */
static long status_number(const char *text, const char *name, int which)
{
	const char *at = status_value(text, name);
	long number = -1;

	for (; at && which >= 0; which--) {
		char *end;
		long next;

		while (*at == ' ' || *at == '\t')
			at++;
		if (!isdigit((unsigned char)*at) && *at != '-')
			break;
		next = strtol(at, &end, 10);
		number = next;
		at = end;
	}
	return number;
}

long target_status_number(pid_t tid, const char *name)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	return file_read(path, text, sizeof(text)) < 0 ? -1 : status_number(text, name, 16);
}

int target_auxv(pid_t tid, uint64_t type, uint64_t *value)
{
	union {
		uint64_t wide[64][2];
		uint32_t narrow[128][2]; /* of a program of 32 bits */
	} pairs = { 0 };
	char path[64];
	int got, is_narrow;

	snprintf(path, sizeof(path), "/proc/%d/auxv", tid);
	got = file_read(path, (char *)&pairs, sizeof(pairs));
	is_narrow = pairs.wide[0][0] >> 32 != 0; /* a pair of its is one word */
	for (int i = 0; i < got / (is_narrow ? 8 : 16); i++)
		if ((is_narrow ? pairs.narrow[i][0] : pairs.wide[i][0]) == type) {
			*value = is_narrow ? pairs.narrow[i][1] : pairs.wide[i][1];
			return 1;
		}
	return got < 0 ? got : 0;
}

uint64_t target_status_mask(pid_t tid, const char *name)
{
	char path[64], text[8192];
	const char *at = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (file_read(path, text, sizeof(text)) >= 0)
		at = status_value(text, name);
	return at ? strtoull(at, NULL, 16) : 0;
}

void target_comm(pid_t pid, pid_t tid, char comm[16])
{
	char path[64], text[32];
	size_t bytes = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	if (file_read(path, text, sizeof(text)) > 0)
		bytes = strcspn(text, "\n");
	bytes = bytes < 15 ? bytes : 15;
	memcpy(comm, text, bytes);
	comm[bytes] = '\0';
}

long target_filters(pid_t tid)
{
	long count = target_status_number(tid, "Seccomp_filters");

	if (count < 0)
		count = target_status_number(tid, "Seccomp");
	return count > 0 ? count : 0;
}

int target_thread_times(pid_t pid, pid_t tid, struct target_times *times)
{
	char path[64], text[128];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	err = file_read(path, text, sizeof(text));
	if (err < 0)
		return err;
	return sscanf(text, "%" SCNu64 " %" SCNu64, &times->ran_ns, &times->waited_ns) == 2
		       ? 0
		       : -ESRCH;
}

uint64_t target_switches(pid_t pid)
{
	uint64_t sum = 0;
	pid_t *tids;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++) {
		char path[64], text[8192];

		snprintf(path, sizeof(path), "/proc/%d/status", tids[i]);
		if (file_read(path, text, sizeof(text)) < 0)
			continue;
		sum += (uint64_t)status_number(text, "voluntary_ctxt_switches", 0);
		sum += (uint64_t)status_number(text, "nonvoluntary_ctxt_switches", 0);
	}
	free(tids);
	return sum;
}

/* Field `want` of /proc/PID/stat, from the ')' on that ends the second. */
static int stat_number(const char *at, int want, uint64_t *number)
{
	at++;
	for (int field = 3; field < want && at; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -ESRCH;
	*number = strtoull(at, NULL, 10);
	return 0;
}

/*
 * State, parent and start time of /proc/PID/stat: past the last ')', for a name may hold any byte.
 */
static int stat_read(const char *path, char *state, pid_t *ppid, uint64_t *start_time)
{
	char text[2048], *at;
	int err = file_read(path, text, sizeof(text));

	if (err < 0)
		return err;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %d", state, ppid) != 2)
		return -ESRCH;
	if (!start_time)
		return 0;
	return stat_number(at, 22, start_time);
}

uint64_t target_stat_field(pid_t tid, int want)
{
	char path[64], text[2048], *at;
	uint64_t number;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (file_read(path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	return at && !stat_number(at, want, &number) ? number : 0;
}

uint64_t target_first_stack(pid_t tid)
{
	return target_stat_field(tid, 28);
}

int target_is_kernels(pid_t tid)
{
	return (target_stat_field(tid, 9) & PF_KTHREAD) != 0;
}

int target_has_program(pid_t tid)
{
	return target_stat_field(tid, 26) != 0; /* where its code is; the kernel sets that last */
}

int target_is_exiting(pid_t tid)
{
	return (target_stat_field(tid, 9) & PF_EXITING) != 0;
}

char target_thread_state(pid_t pid, pid_t tid)
{
	char path[64], state;
	pid_t ppid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	return stat_read(path, &state, &ppid, NULL) ? 0 : state;
}

int target_state_lives(char state)
{
	return state && state != 'Z' && state != 'X';
}

uint64_t target_start_time(pid_t tid)
{
	return target_stat_field(tid, 22);
}

pid_t target_parent(pid_t pid)
{
	char path[64], state;
	pid_t ppid;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (stat_read(path, &state, &ppid, NULL))
		return 0;
	/* a first thread may have ended while others run */
	return state == 'Z' && target_status_number(pid, "Threads") <= 1 ? 0 : ppid;
}

/* The names in a folder that are numbers. How many; or why they can't be listed. free() *all. */
static int numbers_list(const char *path, int **all)
{
	struct dirent *entry;
	size_t room = 0;
	int count = 0;
	DIR *dir = opendir(path);

	*all = NULL;
	if (!dir)
		return file_error();
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (array_grow(all, &room, (size_t)count + 1, sizeof(**all))) {
			closedir(dir);
			return -ENOMEM;
		}
		(*all)[count++] = atoi(entry->d_name);
	}
	closedir(dir);
	return count;
}

int target_processes(pid_t **pids)
{
	return numbers_list("/proc", pids);
}

int target_threads(pid_t pid, pid_t **tids)
{
	char path[64];
	int count;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	count = numbers_list(path, tids);
	return count ? count : -ESRCH;
}

int target_descriptors(pid_t tid, int **numbers)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", tid);
	return numbers_list(path, numbers);
}

int target_descriptor_is(pid_t tid, int number, const char *link)
{
	char path[64], text[LINK_BYTES];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, number);
	bytes = readlink(path, text, sizeof(text));
	return bytes == (ssize_t)strlen(link) && !memcmp(text, link, (size_t)bytes);
}

int target_descriptor_find(pid_t tid, const char *link)
{
	int *numbers, count = target_descriptors(tid, &numbers), found = -ENOENT;

	for (int i = 0; i < count && found < 0; i++)
		if (target_descriptor_is(tid, numbers[i], link))
			found = numbers[i];
	free(numbers);
	return count < 0 ? count : found;
}

int target_threads_are(pid_t pid, const pid_t *tids, int count)
{
	if (target_status_number(pid, "Threads") != count)
		return 0;
	/* so many there were, and these lived before and after */
	for (int i = 0; i < count; i++)
		if (syscall(SYS_tgkill, pid, tids[i], 0) && errno == ESRCH)
			return 0;
	return 1;
}

int target_has_child(pid_t pid, pid_t tid)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	return file_read(path, text, sizeof(text)) != 0;
}

int target_has_memory(pid_t tid)
{
	return target_status_number(tid, "VmSize") >= 0;
}

/*
 * A thread other than a leader that has ended: memory and files are shown under it. Those that were
 * listed may all have ended by the time that they are looked at, while others live on that they
 * have started.
 */
static pid_t live_thread(pid_t pid)
{
	pid_t live = pid;

	for (int tries = 0; live == pid && tries < LIVE_TRIES; tries++) {
		pid_t *tids;
		int count = target_threads(pid, &tids);

		for (int i = 0; i < count && live == pid; i++)
			if (tids[i] != pid && target_has_memory(tids[i]))
				live = tids[i];
		free(tids);
		if (target_status_number(pid, "Threads") <= 1)
			break;
	}
	return live;
}

int target_read(struct target *target, pid_t pid)
{
	char path[64], text[8192];
	ssize_t bytes;
	int err;

	*target = (struct target){ .pid = pid };
	if (pid <= 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	err = file_read(path, text, sizeof(text));
	if (err < 0)
		return err;
	target->pid = (pid_t)status_number(text, "Tgid", 0);
	if (target->pid != pid) {
		if (target->pid <= 0)
			return -ESRCH;
		return target_read(target, target->pid);
	}
	target->uid = (uid_t)status_number(text, "Uid", 1);
	target->tracer_pid = (pid_t)status_number(text, "TracerPid", 0);
	target->threads = (unsigned int)status_number(text, "Threads", 0);
	target->seccomp = (unsigned int)status_number(text, "Seccomp", 0);
	target->inner_pid = (pid_t)status_number(text, "NSpid", 16);
	sscanf(text, "Name:\t%63[^\n]", target->comm);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	err = stat_read(path, &target->state, &target->ppid, &target->start_time);
	if (err)
		return err;
	target->live_tid = status_value(text, "VmSize") ? pid : live_thread(pid);
	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	bytes = readlink(path, target->exe, sizeof(target->exe) - 1);
	target->exe[bytes > 0 ? bytes : 0] = '\0';
	return 0;
}

int target_renew(struct target *target)
{
	return target->live_tid != target->pid && !target_read(target, target->pid) &&
	       !target_has_ended(target);
}

static int has_ptrace_capability(void)
{
	return target_status_mask(getpid(), "CapEff") >> CAP_SYS_PTRACE & 1;
}

int target_denied(const struct target *target, struct detail detail)
{
	int is_kernels = target_is_kernels(target->pid), err;
	char scope[16] = "", words[160] = "";

	if (target->uid == geteuid() && !is_kernels && !target_has_memory(target->live_tid))
		return detail_set(detail, -WM_E_GONE, "process %d (%s) is ending", target->pid,
				  target->comm);
	err = file_read("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	scope[strcspn(scope, "\n")] = '\0';
	if (target->uid != geteuid())
		snprintf(words, sizeof(words), "; it runs as user %u, we as user %u", target->uid,
			 geteuid());
	else if (err > 0 && strcmp(scope, "0"))
		snprintf(words, sizeof(words),
			 "; kernel.yama.ptrace_scope is %s: only a parent or root may attach",
			 scope);
	else
		snprintf(words, sizeof(words),
			 "; it has more rights than we have, or has made itself undumpable");
	return detail_set(detail, -EPERM, "process %d (%s)%s%s", target->pid, target->comm, words,
			  has_ptrace_capability() ? "" : "; we lack CAP_SYS_PTRACE");
}

int target_may_stop_itself(const struct target *target)
{
	struct stat found;
	char path[64];

	/*
	 * root owns the files of one that is not (task_dump_owner() of the kernel's fs/proc/base.c)
	 */
	snprintf(path, sizeof(path), "/proc/%d/maps", target->live_tid);
	return stat(path, &found) || found.st_uid == target->uid ||
	       target_status_mask(target->live_tid, "CapEff") >> CAP_SYS_PTRACE & 1;
}

int target_access(const struct target *target, struct detail detail)
{
	char path[64];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", target->live_tid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	if (mem < 0 && (errno == EACCES || errno == EPERM))
		return target_denied(target, detail);
	if (mem < 0)
		return error_is_lack(-errno) ? detail_set(detail, -errno, "%s", path) : -WM_E_GONE;
	close(mem);
	return 0;
}

int target_may_be_stopped(const struct target *target)
{
	return target_may_stop_itself(target) || !target_access(target, (struct detail){ 0 });
}

static int traced(const struct target *target, struct detail detail)
{
	struct target tracer;

	if (target_read(&tracer, target->tracer_pid))
		snprintf(tracer.comm, sizeof(tracer.comm), "?");
	return detail_set(detail, -WM_E_TRACED, "process %d (%s) is traced by process %d (%s)",
			  target->pid, target->comm, target->tracer_pid, tracer.comm);
}

/* Its tools are static programs: LIBEXEC/valgrind/memcheck-amd64-linux. */
int target_is_valgrind(const struct target *target)
{
	const char *folder = strstr(target->exe, "/valgrind/");

	return folder && strstr(folder, "-amd64-linux");
}

static int program_check(const struct target *target, struct detail detail)
{
	char path[64];
	struct elf elf;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	err = elf_open(&elf, path);
	if (!err)
		err = program_takes_agent(&elf);
	elf_release(&elf);
	if (err == -EACCES || err == -EPERM)
		return target_denied(target, detail);
	if (err == -ENOENT)
		err = !target_thread_state(target->pid, target->live_tid) ? -ESRCH
		      : target_is_kernels(target->pid)			  ? -EINVAL
									  : -WM_E_GONE;
	if (err == -WM_E_STATIC_PROGRAM && target_is_valgrind(target))
		return detail_set(
			detail, -WM_E_INJECT,
			"process %d (%s) runs its program under valgrind, into which no "
			"agent can come later: restart it with waymark record -- valgrind "
			"PROGRAM, or without valgrind",
			target->pid, target->comm);
	if (err)
		detail_set(detail, err, "process %d (%s) runs %s", target->pid, target->comm,
			   *target->exe ? target->exe : "no program: it is the kernel's");
	return err;
}

/*
 * A thread in strict mode may not even read the TSC: the kernel makes rdtsc fault there
 * (kernel/seccomp.c, disable_TSC), so an armed marker would kill it.
 */
static pid_t filtered_thread(const struct target *target)
{
	pid_t *tids, found = 0;
	int count = target_threads(target->pid, &tids);

	for (int i = 0; i < count && !found; i++) {
		if (target_status_number(tids[i], "Seccomp") > 0)
			found = tids[i];
	}
	if (count >= 0)
		free(tids);
	return found;
}

int target_has_ended(const struct target *target)
{
	return target->live_tid == target->pid && (target->state == 'Z' || target->state == 'X');
}

int target_may_trace(const struct target *target, struct detail detail)
{
	if (target->pid == getpid())
		return detail_set(detail, -EINVAL, "process %d is this one", target->pid);
	if (target_has_ended(target))
		return detail_set(detail, -WM_E_GONE, "process %d (%s) has ended", target->pid,
				  target->comm);
	if (target->tracer_pid)
		return traced(target, detail);
	return target_access(target, detail);
}

int target_check(const struct target *target, struct detail detail)
{
	pid_t filtered;

	if (target->pid == getpid())
		return detail_set(detail, -EINVAL, "process %d is this one", target->pid);
	if (target_has_ended(target))
		return detail_set(
			detail, -WM_E_GONE,
			"process %d (%s) has ended; its parent %d has not fetched its status",
			target->pid, target->comm, target->ppid);
	if (target->tracer_pid)
		return traced(target, detail);
	if (target->state == 'T')
		return detail_set(detail, -WM_E_STOPPED, "process %d (%s)", target->pid,
				  target->comm);
	filtered = filtered_thread(target);
	if (filtered)
		return detail_set(detail, -WM_E_SECCOMP, "thread %d of process %d (%s)", filtered,
				  target->pid, target->comm);
	return program_check(target, detail);
}

static int memory_of(pid_t tid, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = { to, bytes };
	struct iovec remote = { (void *)(uintptr_t)address,
				bytes }; /* NOLINT(performance-no-int-to-ptr) */
	ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

int target_memory(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	int err = memory_of(pid, address, to, bytes), count;
	pid_t *tids;

	if (err != -ESRCH)
		return err;
	count = target_threads(pid, &tids);
	for (int i = 0; i < count && err == -ESRCH; i++)
		err = memory_of(tids[i], address, to, bytes);
	free(tids);
	return err;
}
