/* SPDX-License-Identifier: MIT */
/*
 * Processes that see other files than we do, as in a container: how we reach what lies where they say.
 * Their folders may be hostile: no link in them leads us out of their root.
 */
#ifndef PROCESS_APART_H
#define PROCESS_APART_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Which files a process sees; all 0: the same as we. */
struct apart {
	uint64_t root_device, root_inode, mounts;
};

/* Where that can't be told, it is taken for the same. */
void apart_of(struct apart *apart, pid_t pid);
int apart_is(const struct apart *apart);
int apart_is_same(const struct apart *a, const struct apart *b);

/*
 * Open a folder that the process names `dir`, for use by apart_way(); where `make` is set it is made for
 * user `uid`, mode 0700, if it is not there. The descriptor, -errno, or -WM_E_SOCKET_DIR where it is not
 * that user's alone.
 */
int apart_open(pid_t pid, const char *dir, uid_t uid, int make);

/* How we name a file in a folder of apart_open(), while that is open. In way[bytes]; 0 or -ENAMETOOLONG. */
int apart_way(int folder, const char *name, char *way, size_t bytes);

/*
 * See that a file of ours is in such a folder as `name`, the same to the byte. It is left there. 0 or
 * -errno.
 */
int apart_bring(int folder, const char *from, const char *name);

/* Whether the process has a file of ours by the path that we have it by. */
int apart_shares(pid_t pid, const char *path);

/* stat(2) of what a path leads to for the process: from its root, or from its working folder. 0 or -errno. */
int apart_stat(pid_t pid, const char *path, struct stat *st);

/*
 * Whether our user is known in the process's user namespace: there is no other way for its agent to tell who
 * asks. Where that can't be told it is.
 */
int apart_knows_us(pid_t pid);

#endif
