/* SPDX-License-Identifier: MIT */
#include "target/process/mount_ns.h"

#include "target/process/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define COPY_BYTES 65536

static int stat_of(pid_t pid, const char *what, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	return stat(path, st);
}

void mount_ns_of(struct mount_ns *apart, pid_t pid)
{
	struct stat own_root, own_mounts, root, mounts;

	*apart = (struct mount_ns){ 0 };
	if (stat("/", &own_root) || stat("/proc/self/ns/mnt", &own_mounts) ||
	    stat_of(pid, "root/", &root) || stat_of(pid, "ns/mnt", &mounts))
		return;
	if (root.st_dev == own_root.st_dev && root.st_ino == own_root.st_ino &&
	    mounts.st_ino == own_mounts.st_ino)
		return;
	*apart = (struct mount_ns){ root.st_dev, root.st_ino, mounts.st_ino };
}

int mount_ns_is_foreign(const struct mount_ns *apart)
{
	return apart->mounts != 0;
}

int mount_ns_is_same(const struct mount_ns *a, const struct mount_ns *b)
{
	return a->root_device == b->root_device && a->root_inode == b->root_inode &&
	       a->mounts == b->mounts;
}

static int open_in(int root, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static int make_in(int root, const char *dir, uid_t uid)
{
	const char *name = strrchr(dir, '/');
	char parent[256];
	int fd, err;

	if (!name || name - dir >= (long)sizeof(parent))
		return -ENAMETOOLONG;
	snprintf(parent, sizeof(parent), "%.*s/", (int)(name - dir), dir);
	fd = open_in(root, parent, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	err = owner_become(uid);
	if (!err) {
		if (mkdirat(fd, name + 1, 0700) && errno != EEXIST)
			err = -errno;
		owner_leave();
	}
	close(fd);
	return err;
}

int mount_ns_open(pid_t pid, const char *dir, uid_t uid, int make)
{
	char path[64];
	struct stat st;
	int root, fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	if (make)
		err = make_in(root, dir, uid);
	fd = err ? err : open_in(root, dir, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	close(root);
	if (fd < 0)
		return fd;
	err = fstat(fd, &st) ? -errno : 0;
	if (!err && (st.st_uid != uid || (st.st_mode & 07777) != 0700))
		err = -WM_E_SOCKET_DIR;
	if (err)
		close(fd);
	return err ? err : fd;
}

int mount_ns_path(int folder, const char *name, char *way, size_t bytes)
{
	int length = snprintf(way, bytes, "/proc/self/fd/%d/%s", folder, name);

	return (size_t)length >= bytes ? -ENAMETOOLONG : 0;
}

static int is_same_content(int a, int b)
{
	char x[4096], y[4096];
	ssize_t got;
	off_t at = 0;

	while ((got = pread(a, x, sizeof(x), at)) > 0) {
		if (pread(b, y, sizeof(y), at) != got || memcmp(x, y, (size_t)got))
			return 0;
		at += got;
	}
	return !got && !pread(b, y, 1, at);
}

static int copy(int to, int from)
{
	char bytes[COPY_BYTES];
	ssize_t got;

	while ((got = read(from, bytes, sizeof(bytes))) > 0)
		for (ssize_t done = 0, put; done < got; done += put) {
			put = write(to, bytes + done, (size_t)(got - done));
			if (put < 0)
				return -errno;
		}
	return got < 0 ? -errno : 0;
}

/*
 * A name that no other tool has while we live, for all that share the folder: our number, and who
 * gave it. What one who had both before left behind is no longer in use.
 */
static void name_fresh(char *name, size_t bytes)
{
	struct stat numbers = { 0 };

	if (stat("/proc/self/ns/pid", &numbers))
		numbers.st_ino = 0;
	snprintf(name, bytes, ".%ld.%lx", (long)gettid(), (unsigned long)numbers.st_ino);
}

int mount_ns_bring(int folder, const char *from, const char *name)
{
	char fresh[64];
	int in = open(from, O_RDONLY | O_CLOEXEC), out, err;

	if (in < 0)
		return -errno;
	out = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (out >= 0) {
		err = is_same_content(in, out) ? 0 : -EEXIST;
		close(out);
		if (!err) {
			close(in);
			return 0;
		}
	}
	/* made aside and put in its place: another tool, or a program, may have the old one open */
	name_fresh(fresh, sizeof(fresh));
	unlinkat(folder, fresh, 0);
	out = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
	err = out < 0 ? -errno : copy(out, in);
	if (!err && fchmod(out, 0755)) /* whatever our umask is */
		err = -errno;
	if (out >= 0)
		close(out);
	if (!err && renameat(folder, fresh, folder, name))
		err = -errno;
	if (err)
		unlinkat(folder, fresh, 0);
	close(in);
	return err;
}

int mount_ns_shares(pid_t pid, const char *path)
{
	struct stat ours, theirs;
	char way[4200];

	snprintf(way, sizeof(way), "/proc/%d/root%s", (int)pid, path);
	return !stat(path, &ours) && !stat(way, &theirs) && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

int mount_ns_stat(pid_t pid, const char *path, struct stat *st)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | (*path == '/' ? RESOLVE_IN_ROOT : 0),
	};
	char way[64];
	long folder, fd;
	int err = 0;

	snprintf(way, sizeof(way), "/proc/%d/%s", (int)pid, *path == '/' ? "root" : "cwd");
	folder = open(way, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	fd = syscall(SYS_openat2, folder, path, &how, sizeof(how));
	if (fd < 0 || fstat((int)fd, st))
		err = -errno;
	if (fd >= 0)
		close((int)fd);
	close((int)folder);
	return err;
}

int mount_ns_knows_us(pid_t pid)
{
	unsigned long inside, outside, count;
	struct stat own, other;
	int known = 0, lines = 0;
	char path[64];
	FILE *map;

	/* there `outside` would be of the namespace's parent: user_namespaces(7) */
	if (!stat("/proc/self/ns/user", &own) && !stat_of(pid, "ns/user", &other) &&
	    own.st_ino == other.st_ino)
		return 1;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	map = fopen(path, "re");
	while (map && fscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3) {
		lines++;
		known |= geteuid() >= outside && geteuid() - outside < count;
	}
	if (map)
		fclose(map);
	return known || !lines;
}
