/* SPDX-License-Identifier: MIT */
/*
 * The folder where agents and tools find each other: $XDG_RUNTIME_DIR/waymark where that is set and
 * belongs to the user, else /tmp/waymark-UID. Both sides use it only while it is theirs alone.
 */
#ifndef BASE_SOCKETDIR_H
#define BASE_SOCKETDIR_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define SOCKETDIR_BYTES                                                                            \
	92 /* of a path with its NUL, so that the longest socket's name still fits */

/*
 * The folder's path for user `uid`; it need not exist. `runtime_dir` is what XDG_RUNTIME_DIR says, or
 * NULL; it is passed over when it isn't this user's folder or would be too long. Returns 0.
 */
int socketdir_path(uid_t uid, const char *runtime_dir, char path[SOCKETDIR_BYTES]);

/*
 * Make the folder if it isn't there, then check it. Returns 0; -WM_E_SOCKET_DIR if it is not a folder
 * that belongs to `uid` with mode 0700; -errno if it can't be made.
 */
int socketdir_make(const char *path, uid_t uid);

/* As socketdir_make(), without making it: -ENOENT when it isn't there. */
int socketdir_check(const char *path, uid_t uid);

/*
 * The name of an agent's socket, in name[bytes]: PID.agent, by the pid that its process sees itself. Processes
 * in several PID namespaces may share the folder and the pid; so each takes the first of SOCKETDIR_TWINS
 * names that no other answers under, and who looks for one asks all.
 */
void socketdir_agent_name(pid_t pid, unsigned int twin, char *name, size_t bytes);

#define SOCKETDIR_TWINS 16

/*
 * The address of socket `name` in folder `path`; `name` alone if it begins with a slash. Returns 0 or
 * -ENAMETOOLONG.
 */
int socketdir_address(struct sockaddr_un *address, const char *path, const char *name);

struct ucred;

/*
 * Whether a connected socket's other end is ours: it has our effective uid, or is root. Returns 0,
 * -WM_E_PEER_UID or -errno. *peer gets who it is, as the kernel says (SO_PEERCRED).
 */
int socketdir_peer(int fd, struct ucred *peer);

#endif
