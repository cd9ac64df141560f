/* SPDX-License-Identifier: MIT */
/* Whose folder of sockets (base/socketdir.h) serves which process. */
#ifndef TARGET_PROCESS_SOCKET_OWNER_H
#define TARGET_PROCESS_SOCKET_OWNER_H

#include "base/socketdir.h"

/*
 * The folder for our own sockets, made when it is not there (socketdir_find()). 0, -errno, or
 * -WM_E_SOCKET_DIR when it is not ours alone; dir[] names it in either case.
 */
int socket_place_own(char dir[SOCKETDIR_BYTES]);

/*
 * The folder for the sockets of a process that runs as `uid`, made for that user when it is not
 * there and we are root. As socket_place_own().
 */
int socket_place_of(pid_t pid, uid_t uid, char dir[SOCKETDIR_BYTES]);

/*
 * As these two; if both fail, a private folder of that user. For sockets alone: other processes
 * would not find the ledger there.
 */
int socket_place_any(pid_t pid, uid_t uid, char dir[SOCKETDIR_BYTES]);

/*
 * Open a folder for mount_ns_path(), and check it by its descriptor: its path may lead elsewhere by
 * now. The descriptor, -errno, or -WM_E_SOCKET_DIR if the folder is not that user's alone.
 */
int socket_place_open(const char *dir, uid_t uid);

/*
 * The folder for the sockets of a process apart (target/process/mount_ns.h), as it names it. Makes
 * none.
 */
void socket_place_apart(uid_t uid, char dir[SOCKETDIR_BYTES]);

/*
 * The folder numbered `which`, from 0, where an agent of that process may have its socket, whatever
 * environment it was started with. Returns 0, or -ENOENT when there are no more.
 */
int socket_place_candidate(pid_t pid, uid_t uid, unsigned int which, char dir[SOCKETDIR_BYTES]);

#endif
