/* SPDX-License-Identifier: MIT */
/*
 * Processes in another mount namespace, as in a container: how Waymark reaches files by the paths
 * that are valid there. Their folders may be hostile: Waymark follows no link in them out of their
 * root.
 */
#ifndef PROCESS_APART_H
#define PROCESS_APART_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The mount namespace and root of a process; all 0: the same as ours. */
struct apart {
	uint64_t root_device, root_inode, mounts;
};

/* Where that is unknown, it counts as the same. */
void apart_of(struct apart *apart, pid_t pid);
int apart_is(const struct apart *apart);
int apart_is_same(const struct apart *a, const struct apart *b);

/*
 * Open a folder that the process names `dir`, for use by apart_way(); where `make` is set it is
 * made for user `uid`, mode 0700, if it is not there. The descriptor, -errno, or -WM_E_SOCKET_DIR
 * where it is not that user's alone.
 */
int apart_open(pid_t pid, const char *dir, uid_t uid, int make);

/*
 * How we name a file in a folder of apart_open(), while that is open. In way[bytes]; 0 or
 * -ENAMETOOLONG.
 */
int apart_way(int folder, const char *name, char *way, size_t bytes);

/*
 * Copy one of Waymark's files into such a folder as `name`, unless the same bytes are there. It
 * stays there. Returns 0 or -errno.
 */
int apart_bring(int folder, const char *from, const char *name);

/* Whether the process has Waymark's file under the same path as we. */
int apart_shares(pid_t pid, const char *path);

/*
 * stat(2) of what a path leads to for the process: from its root, or from its working folder. 0 or
 * -errno.
 */
int apart_stat(pid_t pid, const char *path, struct stat *st);

/*
 * Whether the process's user namespace maps our user: only then can its agent identify the peer. 1
 * where that is unknown.
 */
int apart_knows_us(pid_t pid);

#endif
