/* SPDX-License-Identifier: MIT */
/*
 * Processes in another mount namespace, as in a container: how Waymark reaches files by the paths
 * that are valid there. Their folders may be hostile: Waymark follows no link in them out of their
 * root.
 */
#ifndef TARGET_PROCESS_MOUNT_NS_H
#define TARGET_PROCESS_MOUNT_NS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The mount namespace and root of a process; all 0: the same as ours. */
struct mount_ns {
	uint64_t root_device, root_inode, mounts;
};

/* Where that is unknown, it counts as the same. */
void mount_ns_of(struct mount_ns *apart, pid_t pid);
int mount_ns_is_foreign(const struct mount_ns *apart);
int mount_ns_is_same(const struct mount_ns *a, const struct mount_ns *b);

/*
 * Open a folder that the process names `dir`, for use by mount_ns_path(); where `make` is set it is
 * made for user `uid`, mode 0700, if it is not there. The descriptor, -errno, or -WM_E_SOCKET_DIR
 * where it is not that user's alone.
 */
int mount_ns_open(pid_t pid, const char *dir, uid_t uid, int make);

/*
 * How we name a file in a folder of mount_ns_open(), while that is open. In way[bytes]; 0 or
 * -ENAMETOOLONG.
 */
int mount_ns_path(int folder, const char *name, char *way, size_t bytes);

/*
 * Copy one of Waymark's files into such a folder as `name`, unless the same bytes are there. It
 * stays there. Returns 0 or -errno.
 */
int mount_ns_bring(int folder, const char *from, const char *name);

/* Whether the process has Waymark's file under the same path as we. */
int mount_ns_shares(pid_t pid, const char *path);

/*
 * stat(2) of what a path leads to for the process: from its root, or from its working folder. 0 or
 * -errno.
 */
int mount_ns_stat(pid_t pid, const char *path, struct stat *st);

/*
 * Whether the process's user namespace maps our user: only then can its agent identify the peer. 1
 * where that is unknown.
 */
int mount_ns_knows_us(pid_t pid);

#endif
