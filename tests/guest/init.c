/* SPDX-License-Identifier: MIT */
/*
 * The guest's first process: loads what its kernel needs to see the host's files, and has bash do
 * the rest (inside.sh). Static, for there is nothing else in the initramfs. Where it can't continue
 * it says why, and the guest ends.
 *
 * Parameters of the kernel's command line that the kernel does not know are our environment:
 * GUEST_RUN is the script.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOT "/root"

static void end(const char *what)
{
	if (what)
		printf("guest: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

/* In the order in which the list has them: each after those that it builds on. */
static void modules_load(void)
{
	FILE *list = fopen("/modules/list", "r");
	char line[256];

	while (list && fgets(line, sizeof(line), list)) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
			end(line);
		close(fd);
	}
	if (list)
		fclose(list);
}

static void attach(const char *from, const char *to, const char *type, unsigned long flags,
		   const char *options)
{
	if (mount(from, to, type, flags, options))
		end(to);
}

int main(void)
{
	const char *script = getenv("GUEST_RUN");
	pid_t shell;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	modules_load();
	mkdir(ROOT, 0755);
	attach("host", ROOT, "9p", MS_RDONLY,
	       "trans=virtio,version=9p2000.L,msize=262144,cache=loose");
	attach("tmpfs", ROOT "/mnt", "tmpfs", 0, "mode=755");
	mkdir(ROOT "/mnt/out", 0755);
	attach("out", ROOT "/mnt/out", "9p", 0,
	       "trans=virtio,version=9p2000.L,msize=262144,cache=none");
	attach("proc", ROOT "/proc", "proc", 0, NULL);
	attach("sys", ROOT "/sys", "sysfs", 0, NULL);
	attach("dev", ROOT "/dev", "devtmpfs", 0, NULL);
	if (chdir(ROOT) || mount(ROOT, "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		end("chroot");
	if (!script || setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1))
		end("GUEST_RUN");
	shell = fork();
	if (!shell) {
		execl("/bin/bash", "bash", script, NULL);
		_exit(127);
	}
	/* orphans become our children */
	while (wait(&status) != shell || errno == EINTR)
		errno = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		printf("guest: %s: status 0x%x\n", script, (unsigned int)status);
	end(NULL);
}
