/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_asked.h"

#include "base/maps.h"
#include "record/trail/privileges.h"
#include "target/process/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NAME_BYTES 96u

#define TMPFS 0x01021994 /* linux/magic.h */

int asked_gains(const struct engine_channel *head, pid_t tid)
{
	const struct engine_exec exec = head->exec;
	const struct user_regs_struct regs = {
		.orig_rax = exec.number,
		.rdi = exec.arguments[0],
		.rsi = exec.arguments[1],
		.rdx = exec.arguments[2],
		.r10 = exec.arguments[3],
		.r8 = exec.arguments[4],
	};

	return privileges_gained(tid, &regs);
}

static int has_channel(const struct soft_channel *channel, pid_t tid)
{
	struct maps maps;
	int found = 0;

	/* anonymous memory has neither */
	if (channel->base && channel->inode && !maps_read(&maps, tid))
		for (size_t i = 0; i < maps.count && !found; i++)
			found = maps.list[i].inode == channel->inode &&
				maps.list[i].device == channel->device;
	maps_release(&maps);
	return found;
}

int asked_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && !access(path, F_OK) && has_channel(channel, tid);
}

static int has_name(int folder, const char *path, const char *name)
{
	char target[NAME_BYTES];
	ssize_t bytes = readlinkat(folder, path, target, sizeof(target));

	return bytes == (ssize_t)strlen(name) && !memcmp(target, name, (size_t)bytes);
}

/* Its mode forbids that, but we are its owner. soft_channel_open_at() forbids it again. */
static int open_anyhow(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0 || errno != EACCES || chmod(path, S_IRUSR | S_IWUSR))
		return fd;
	return open(path, O_RDWR | O_CLOEXEC);
}

/*
 * Any file may be behind the path by now: to open it may block, or change something. A memfd that
 * no one else uses has no seals yet; a file that is no memfd has one. The process made it, unless
 * another user's process has sent it.
 */
static int fd_open(pid_t pid, int folder, const char *path, const char *name)
{
	int at = has_name(folder, path, name) ? openat(folder, path, O_PATH | O_CLOEXEC) : -1;
	int fd = -1;
	struct statfs system;
	struct stat about;
	char own[64];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", at);
	if (at >= 0 && has_name(AT_FDCWD, own, name) && !fstat(at, &about) &&
	    S_ISREG(about.st_mode) && about.st_uid == (uid_t)target_status_number(pid, "Uid") &&
	    !fstatfs(at, &system) && system.f_type == TMPFS)
		fd = open_anyhow(own);
	if (at >= 0)
		close(at);
	if (fd >= 0 && fcntl(fd, F_GET_SEALS)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int asked_channel(pid_t pid, pid_t parent, uint32_t count, int *number, int all)
{
	char path[64], name[NAME_BYTES];
	struct dirent *entry;
	int fd = -1;
	DIR *dir;

	snprintf(name, sizeof(name), "/memfd:" ENGINE_CHANNEL_NAME "-%d-%u (deleted)", (int)parent,
		 count);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir) /* EACCES: it keeps others out: PR_SET_DUMPABLE */
		return errno == EACCES ? -EACCES : -ENOENT;
	snprintf(path, sizeof(path), "%d", *number);
	if (!all)
		fd = fd_open(pid, dirfd(dir), path, name);
	while (all && fd < 0 && (entry = readdir(dir))) {
		fd = fd_open(pid, dirfd(dir), entry->d_name, name);
		*number = fd < 0 ? *number : atoi(entry->d_name);
	}
	closedir(dir);
	return fd < 0 ? -ENOENT : fd;
}

int asked_must_look(const struct engine_child *entry)
{
	return !entry->has_stack || !(target_status_mask(gettid(), "CapEff") >> CAP_SYS_PTRACE & 1);
}
