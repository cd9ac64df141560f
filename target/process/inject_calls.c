/* SPDX-License-Identifier: MIT */
#include "target/process/inject_calls.h"

#include "base/socketdir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <waymark/error.h>

#define PAGE_BYTES 4096
#define FROM ((uint64_t)AT_FDCWD)		      /* all paths are absolute */
#define ADDRESS_AT offsetof(struct loader_data, text) /* for the address of a socket */
#define PATH_AT (ADDRESS_AT + offsetof(struct sockaddr_un, sun_path))

_Static_assert(sizeof(struct sockaddr_un) <= LOADER_TEXT_BYTES, "the socket's address fits");

struct calls {
	const struct scratch *scratch;
	struct remote_thread *remote;
	struct detail detail;
	struct loader_data data;
};

/* What it returned, -errno as the kernel has it; also where the loan failed, as the next will. */
static int call(const struct calls *calls, long number, uint64_t first, uint64_t second,
		uint64_t third)
{
	const uint64_t arguments[6] = { first, second, third };
	long result;
	int err = remote_thread_syscall(calls->remote, number, arguments, &result);

	return err ? err : (int)result;
}

static int refuse(const struct calls *calls, int err, const char *what)
{
	int error = -WM_E_INJECT;

	if (err == -EMFILE)
		error = -WM_E_NO_DESCRIPTORS;
	else if (err == -EROFS)
		error = -WM_E_SOCKET_DIR;
	return detail_set(calls->detail, error, "%s: %s%s", what, strerror(-err),
			  target_refusal(calls->remote->tid, err));
}

/* The agent's file is opened, and mapped as code. */
static int load(const struct calls *calls)
{
	uint64_t path = calls->scratch->data + offsetof(struct loader_data, agent_path);
	uint64_t map[6] = { 0, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE };
	int fd = call(calls, SYS_openat, FROM, path, O_RDONLY | O_CLOEXEC), err;
	long at;

	if (fd < 0)
		return refuse(calls, fd, calls->data.agent_path);
	map[4] = (uint64_t)fd;
	err = remote_thread_syscall(calls->remote, SYS_mmap, map, &at);
	if (!err && at < 0 && at > -PAGE_BYTES)
		err = (int)at;
	if (!err)
		call(calls, SYS_munmap, (uint64_t)at, PAGE_BYTES, 0);
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	if (err == -EPERM || err == -EACCES)
		return detail_set(calls->detail, -WM_E_INJECT,
				  "%s may not be mapped as code: %s (noexec, SELinux)",
				  calls->data.agent_path, strerror(-err));
	return err ? refuse(calls, err, calls->data.agent_path) : 0;
}

static int bind_at(const struct calls *calls, uint64_t at)
{
	int fd = call(calls, SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return fd;
	err = call(calls, SYS_bind, (uint64_t)fd, at + ADDRESS_AT, sizeof(struct sockaddr_un));
	if (!err)
		call(calls, SYS_unlinkat, FROM, at + PATH_AT, 0);
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	return err;
}

/* A socket is bound in its folder, which is made where it is not there. */
static int listen_there(const struct calls *calls)
{
	uint64_t at = calls->scratch->data, dir = at + offsetof(struct loader_data, socket_dir);
	struct sockaddr_un address;
	char name[32];
	int made, err;

	snprintf(name, sizeof(name), "%d.try", calls->remote->tid);
	err = socketdir_address(&address, calls->data.socket_dir, name);
	if (!err)
		err = remote_thread_write(calls->remote, at + ADDRESS_AT, &address,
					  sizeof(address));
	if (err)
		return err;
	made = call(calls, SYS_mkdirat, FROM, dir, 0700);
	err = made && made != -EEXIST ? made : bind_at(calls, at);
	if (!made)
		call(calls, SYS_unlinkat, FROM, dir, AT_REMOVEDIR);
	return err ? refuse(calls, err, calls->data.socket_dir) : 0;
}

static int share(const struct calls *calls)
{
	uint64_t name = calls->scratch->data + offsetof(struct loader_data, symbol);
	int fd = call(calls, SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);

	if (fd < 0)
		return refuse(calls, fd, "memfd_create(2)");
	call(calls, SYS_close, (uint64_t)fd, 0, 0);
	return 0;
}

static int reads_proc(const struct calls *calls)
{
	static const struct {
		char path[32];
		int flags;
	} files[] = { { "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC },
		      { "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC } };
	uint64_t at = calls->scratch->data + ADDRESS_AT;
	int fd = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && fd >= 0; i++) {
		if (remote_thread_write(calls->remote, at, files[i].path, sizeof(files[i].path)))
			return 0;
		fd = call(calls, SYS_openat, FROM, at, (uint64_t)files[i].flags);
		if (fd >= 0)
			call(calls, SYS_close, (uint64_t)fd, 0, 0);
	}
	return fd >= 0;
}

int inject_calls(const struct scratch *scratch, struct remote_thread *remote, struct detail detail)
{
	struct calls calls = { scratch, remote, detail, { 0 } };
	int err = remote_thread_read(remote, scratch->data, &calls.data, sizeof(calls.data));

	calls.data.socket_dir[sizeof(calls.data.socket_dir) - 1] = '\0';
	calls.data.agent_path[sizeof(calls.data.agent_path) - 1] = '\0';
	if (!err)
		err = load(&calls);
	if (!err)
		err = listen_there(&calls);
	if (!err)
		err = share(&calls);
	return err ? err : !reads_proc(&calls);
}
