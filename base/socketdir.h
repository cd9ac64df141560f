/* SPDX-License-Identifier: MIT */
/*
 * The folder where agents and tools find each other: $XDG_RUNTIME_DIR/waymark where that is set and
 * belongs to the user, else /tmp/waymark-UID. Both sides use it only while it is theirs alone.
 *
 * Anyone can make /tmp/waymark-UID first. Then it is /run/user/UID/waymark, and where that is not
 * to be had a private one, /tmp/waymark-UID-RANDOM. Its maker passes a private one on; an agent
 * that listens in one has a memfd with the path.
 */
#ifndef BASE_SOCKETDIR_H
#define BASE_SOCKETDIR_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define SOCKETDIR_BYTES                                                                            \
	92 /* of a path with its NUL, so that the longest socket's name still fits */

/*
 * The folder's path for user `uid`; it need not exist. `runtime_dir` is what XDG_RUNTIME_DIR says,
 * or NULL; it is passed over when it isn't this user's folder or would be too long. Returns 0.
 */
int socketdir_path(uid_t uid, const char *runtime_dir, char path[SOCKETDIR_BYTES]);

/*
 * The first of these that is there or can be made: what socketdir_path() says,
 * /run/user/UID/waymark, and
 * /tmp/waymark-UID. Returns 0, or why the first is not to be had, which path[] then names.
 */
int socketdir_find(uid_t uid, const char *runtime_dir, char path[SOCKETDIR_BYTES]);

/* Make a private one. 0 or -errno. socketdir_leave() removes it once it is empty. */
int socketdir_make_private(uid_t uid, char path[SOCKETDIR_BYTES]);
int socketdir_is_private(const char *path);
void socketdir_leave(const char *path);

/* The name of the memfd, which is sealed, so that it can't change while a tool reads. */
#define SOCKETDIR_MEMFD "waymark-folder"

/*
 * Make the folder if it isn't there, then check it. Returns 0; -WM_E_SOCKET_DIR if it is not a
 * folder that belongs to `uid` with mode 0700; -errno if it can't be made.
 */
int socketdir_make(const char *path, uid_t uid);

/* As socketdir_make(), without making it: -ENOENT when it isn't there. */
int socketdir_check(const char *path, uid_t uid);

/*
 * The name of an agent's socket, in name[bytes]: PID.agent, by the pid that its process sees
 * itself. Processes in several PID namespaces may share the folder and the pid; so each takes the
 * first of SOCKETDIR_TWINS names that no other answers under, and who looks for one asks all.
 */
void socketdir_agent_name(pid_t pid, unsigned int twin, char *name, size_t bytes);

#define SOCKETDIR_TWINS 16

/*
 * The address of socket `name` in folder `path`; `name` alone if it begins with a slash. Returns 0
 * or -ENAMETOOLONG.
 */
int socketdir_address(struct sockaddr_un *address, const char *path, const char *name);

struct ucred;

/*
 * Whether a connected socket's other end is ours: it has our effective uid, or is root. Returns 0,
 * -WM_E_PEER_UID or -errno. *peer gets who it is, as the kernel says (SO_PEERCRED).
 */
int socketdir_peer(int fd, struct ucred *peer);

#endif
