/* SPDX-License-Identifier: MIT */
#include "target/process/reach.h"

#include "target/process/mount_ns.h"
#include "target/process/socket_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

/* To the socket of that name, if the process itself answers there. */
static int connect_as(const struct target *target, unsigned int twin, int folder, struct link *link)
{
	char name[32], path[SOCKETDIR_BYTES + 32];
	int err;

	socketdir_agent_name(target->inner_pid, twin, name, sizeof(name));
	err = mount_ns_path(folder, name, path, sizeof(path));
	if (!err)
		err = link_connect(link, path);
	if (err || link->pid == target->pid)
		return err;
	link_release(link); /* of another PID namespace, or left by one that had this pid */
	return -ENOENT;
}

/* 0; -ENOENT: it does not listen there; else why it can't be asked. */
static int connect_in(const struct target *target, const struct mount_ns *apart, const char *dir,
		      struct link *link)
{
	int folder = mount_ns_is_foreign(apart) ? mount_ns_open(target->pid, dir, target->uid, 0)
						: socket_place_open(dir, target->uid);
	int found = -ENOENT;

	if (folder < 0)
		return -ENOENT;
	for (unsigned int twin = 0; found && twin < SOCKETDIR_TWINS; twin++) {
		int err = connect_as(target, twin, folder, link);

		if (err != -ENOENT && err != -ECONNREFUSED)
			found = err;
	}
	close(folder);
	return found;
}

static int is_called(pid_t pid, pid_t tid, const char *name)
{
	char comm[16];

	target_comm(pid, tid, comm);
	return !strcmp(comm, name);
}

/* It has descriptors of its own. Where the kernel does not say, the name decides. */
static int is_control(pid_t pid, pid_t tid)
{
	return is_called(pid, tid, "waymark") && syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0);
}

/* Whether `has` is true of a control thread of the process; NULL: whether there is one. */
static int control_has(pid_t pid, int (*has)(pid_t tid, void *data), void *data)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids), found = 0;

	for (int i = 0; i < count && !found; i++)
		found = tids[i] != pid && is_control(pid, tids[i]) && (!has || has(tids[i], data));
	if (count >= 0)
		free(tids);
	return found;
}

int reach_is_agents(pid_t pid, pid_t tid)
{
	if (tid == pid)
		return 0;
	/* the keeper, which has the program's descriptors, is beside the control thread */
	return is_called(pid, tid, "waymark-keeper") ? control_has(pid, NULL, NULL)
						     : is_control(pid, tid);
}

/*
 * Read the sealed memfd of that thread, which names a folder. The seal keeps others from changing
 * it.
 */
static int read_published(pid_t tid, void *data)
{
	int number = target_descriptor_find(tid, "/memfd:" SOCKETDIR_MEMFD " (deleted)"), fd, seals;
	char path[64], *dir = data;
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, number);
	fd = number < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	bytes = pread(fd, dir, SOCKETDIR_BYTES, 0);
	seals = fcntl(fd, F_GET_SEALS);
	close(fd);
	return seals >= 0 && seals & F_SEAL_WRITE && bytes > 1 && dir[0] == '/' && !dir[bytes - 1];
}

int reach_published(pid_t pid, char dir[SOCKETDIR_BYTES])
{
	return control_has(pid, read_published, dir) ? 0 : -ENOENT;
}

int reach_limits(const struct target *target, struct detail detail)
{
	char dir[SOCKETDIR_BYTES];

	if (!target_lacks_threads(target) || !reach_published(target->pid, dir))
		return 0;
	return target_thread_limit(target, -WM_E_INJECT, detail);
}

int reach_agent(const struct target *target, struct link *link)
{
	char dir[SOCKETDIR_BYTES];
	struct mount_ns apart;
	int found = -ENOENT;

	mount_ns_of(&apart, target->pid);

	for (unsigned int which = 0; !socket_place_candidate(target->pid, target->uid, which, dir);
	     which++) {
		int err = connect_in(target, &apart, dir, link);

		if (!err)
			return 0;
		if (err != -ENOENT)
			found = err;
	}
	if (found == -ENOENT && !reach_published(target->pid, dir))
		found = connect_in(target, &apart, dir, link);
	return found;
}

/* Whether a thread of the process has that socket open. */
static int has_socket(pid_t tid, void *data)
{
	char link[64];

	snprintf(link, sizeof(link), "socket:[%lu]", *(const unsigned long *)data);
	return target_descriptor_find(tid, link) >= 0;
}

/* Whether a line of /proc/net/unix is of a listening socket by one of an agent's names. */
static int is_agents_line(const struct target *target, const char *dir, const char *line,
			  unsigned long *inode)
{
	const char *at = strchr(line, '/');
	unsigned int flags;

	if (!at || sscanf(line, "%*x: %*x %*x %x %*x %*x %lu", &flags, inode) != 2 ||
	    !(flags & 0x10000)) /* __SO_ACCEPTCON, include/linux/net.h */
		return 0;
	for (unsigned int twin = 0; twin < SOCKETDIR_TWINS; twin++) {
		char name[32], want[256];

		socketdir_agent_name(target->inner_pid, twin, name, sizeof(name));
		snprintf(want, sizeof(want), "%s/%s\n", dir, name);
		if (!strcmp(at, want))
			return 1;
	}
	return 0;
}

int reach_listens(struct target *target, const char *dir)
{
	char path[64], line[512];
	int found = 0, tries = 0;
	FILE *list;

	do {
		snprintf(path, sizeof(path), "/proc/%d/net/unix", target->live_tid);
		list = fopen(path, "re");
	} while (!list && tries++ < TARGET_RENEWALS && target_renew(target));
	while (list && !found && fgets(line, sizeof(line), list)) {
		unsigned long inode;

		found = is_agents_line(target, dir, line, &inode) &&
			/* the agent's threads have descriptors of their own */
			(has_socket(target->pid, &inode) ||
			 control_has(target->pid, has_socket, &inode));
	}
	if (list)
		fclose(list);
	return found;
}
