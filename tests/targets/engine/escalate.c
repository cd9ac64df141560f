/* SPDX-License-Identifier: MIT */
/*
 * Attacks on processes of other rights that are recorded along (tests/engine_escalate.sh). Each
 * shared memory that a process can write and that is the recorder's is overwritten, again and
 * again: where its layout says that data is, and behind that.
 *
 * escalate worker COUNT [wait|bare]: of a worker that has dropped root's rights, on its parent's
 * further children. Prints how many of them were harmed, and how many mappings the two share.
 * Both: it begins once there is input. `bare`: the worker is not made by libc.
 * escalate program COUNT FILE: of a child, on a program that its parent executes so often, both
 * without root's rights.
 * escalate capability FILE: not an attack: the file gets CAP_NET_RAW.
 */
#include "abi/engine.h"

#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <waymark/marker.h>

#define NOBODY 65534
#define POISON UINT64_C(0x414141414000)
#define MAPPINGS_MAX 64
#define PAGES_MAX 4096u /* of a mapping */
#define PAGE 4096u

struct mapping {
	unsigned long start, end, inode;
};

extern char **environ;

/* The recorder's that can be written. How many. */
static int mappings_read(struct mapping list[MAPPINGS_MAX])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	while (maps && count < MAPPINGS_MAX && fgets(line, sizeof(line), maps)) {
		struct mapping *at = &list[count];

		if (strstr(line, "waymark") && strstr(line, "rw-s") &&
		    sscanf(line, "%lx-%lx %*s %*s %*s %lu", &at->start, &at->end, &at->inode) == 3)
			count++;
	}
	if (maps)
		fclose(maps);
	return count;
}

static void overwrite(const struct mapping *mapping)
{
	unsigned long end = mapping->end;

	if (end - mapping->start > PAGES_MAX * PAGE)
		end = mapping->start + PAGES_MAX * PAGE;
	for (unsigned long at = mapping->start; at < end; at += PAGE) {
		struct engine_channel *head = (struct engine_channel *)at;

		if (head->magic != ENGINE_MAGIC)
			continue;
		head->log_at = POISON;
		/* where the program's registers once were */
		for (uint64_t *word = &head->log_bytes; word < &head->log_bytes + 24; word++)
			*word = POISON;
	}
}

static void attack(void)
{
	struct mapping list[MAPPINGS_MAX];
	int count = mappings_read(list);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		for (int i = 0; i < count; i++)
			overwrite(&list[i]);
}

/* Each process of the recording passes it. */
static int passed(int count)
{
	WAYMARK(escalate, passed, count);
	return count;
}

static int become_nobody(void)
{
	return setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY);
}

static int status_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static int spawn(const char *file)
{
	char *argv[] = { (char *)file, (char *)"/proc/self/maps", NULL };
	pid_t pid;

	return posix_spawn(&pid, file, NULL, NULL, argv, environ) ? -1 : status_of(pid);
}

static int forked(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(passed(0));
	return status_of(pid);
}

static int worker(int count, int waits, int is_bare)
{
	struct mapping mine[MAPPINGS_MAX], its[MAPPINGS_MAX];
	int harmed = 0, shared = 0, line[2], mine_count, its_count;
	pid_t pid;

	if (pipe(line))
		return 3;
	passed(count);
	if (waits)
		getchar();
	pid = is_bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (!pid) {
		if (become_nobody())
			_exit(3);
		its_count = mappings_read(its);
		passed(its_count);
		if (write(line[1], &its_count, sizeof(its_count)) < 0 ||
		    write(line[1], its, sizeof(its)) < 0)
			_exit(4);
		attack();
	}
	if (read(line[0], &its_count, sizeof(its_count)) < 0 || read(line[0], its, sizeof(its)) < 0)
		return 5;
	mine_count = mappings_read(mine);
	for (int i = 0; i < mine_count; i++)
		for (int k = 0; k < its_count; k++)
			shared += mine[i].inode == its[k].inode;
	for (int i = 0; i < count; i++)
		harmed += (forked() != 0) + (spawn("/bin/true") != 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%d harmed, %d shared, %d of its own\n", harmed, shared, its_count != 0);
	return 0;
}

static int program(int count, const char *file)
{
	int harmed = 0;
	pid_t pid;

	passed(count);
	if (become_nobody())
		return 3;
	pid = fork();
	if (!pid)
		attack();
	for (int i = 0; i < count; i++)
		harmed += spawn(file) != 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%d harmed\n", harmed);
	return 0;
}

static int capability(const char *file)
{
	struct vfs_cap_data data = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
				     .data = { { .permitted = 1u << CAP_NET_RAW } } };

	return setxattr(file, "security.capability", &data, sizeof(data), 0) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "worker"))
		return worker(atoi(argv[2]), argc > 3, argc > 3 && !strcmp(argv[3], "bare"));
	if (argc > 3 && !strcmp(argv[1], "program"))
		return program(atoi(argv[2]), argv[3]);
	return argc > 2 && !strcmp(argv[1], "capability") ? capability(argv[2]) : 2;
}
