/* SPDX-License-Identifier: MIT */
/* Calls of libc's functions whose arguments have names, and which fail or do not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	struct stat about;
	int fd;

	errno = EDOM; /* of nothing that follows */
	open("/none", O_RDONLY | O_CLOEXEC);
	fd = open("/dev/null", O_WRONLY | O_APPEND | O_SYNC);
	open("/", O_RDWR | 0x40000000);
	lseek(-1, 1l << 40, SEEK_CUR);
	fstatat(AT_FDCWD, "/none", &about, AT_SYMLINK_NOFOLLOW);
	mkdir("/none/at/all", 0755);
	mkdir("/none/at/all", 0);
	mmap(NULL, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(NULL, 0, PROT_NONE);
	socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 99);
	opendir("/none");
	kill(getpid(), 0);
	kill(getpid(), SIGCHLD);
	pthread_kill(pthread_self(), 99);
	return close(fd) + close(fd) + 1;
}
