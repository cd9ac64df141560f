/* SPDX-License-Identifier: MIT */
#include "base/maps.h"
#include "base/testing/await.h"
#include "target/process/target.h"
#include "target/process/testing/subject.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_WAIT_MS 20000

void subject_file(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, TARGETS "/%s", name);
}

/* Returns the end of a pipe that it writes to. */
static int execute(struct subject *subject, char *const argv[])
{
	int in[2], out[2];

	strcpy(subject->dir, "/tmp/waymark-test-XXXXXX");
	cr_assert_not_null(mkdtemp(subject->dir));
	cr_assert(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	subject->pid = fork();
	if (!subject->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv(argv[0], argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	subject->end = in[1];
	return out[0];
}

void subject_start_command(struct subject *subject, char *const argv[])
{
	int out = execute(subject, argv);
	struct pollfd ready = { .fd = out, .events = POLLIN };
	char byte;

	cr_assert_eq(poll(&ready, 1, READY_WAIT_MS), 1);
	cr_assert_eq(read(out, &byte, 1), 1, "%s did not start", argv[0]);
	close(out);
	subject->out = -1;
}

void subject_start(struct subject *subject, const char *name, const char *argument)
{
	char path[PATH_MAX], words[64];

	snprintf(words, sizeof(words), "%s", argument);
	subject_file(path, name);
	subject_start_command(subject, (char *[]){ path, words, NULL });
}

void subject_begin(struct subject *subject, char *const argv[])
{
	char path[PATH_MAX], was[PATH_MAX] = "", is[PATH_MAX] = "";

	subject->out = execute(subject, argv);
	snprintf(path, sizeof(path), "/proc/%d/exe", subject->pid);
	cr_assert_gt(readlink("/proc/self/exe", was, sizeof(was) - 1), 0);
	do
		memset(is, 0, sizeof(is));
	while (readlink(path, is, sizeof(is) - 1) > 0 && !strcmp(is, was));
}

void subject_end(struct subject *subject)
{
	char path[128];
	int status;

	pid_t ended;

	close(subject->end);
	ended = waitpid(subject->pid, &status, 0);
	if (subject->out >= 0)
		close(subject->out);
	cr_assert_eq(ended, subject->pid, "its end is not reported: %s", strerror(errno));
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "the target ended with status %#x",
		  (unsigned int)status);
	snprintf(path, sizeof(path), "%s/%d.agent", subject->dir, subject->pid);
	unlink(path);
	rmdir(subject->dir);
}

/* Whether its socket is gone. If not, connects to it, so that it leaves. */
static int agent_has_left(const struct sockaddr_un *address, int try)
{
	struct stat st;
	int fd;

	if (stat(address->sun_path, &st))
		return 1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) &&
	    errno == ECONNREFUSED && try > 100)
		unlink(address->sun_path); /* of a process that is another program by now */
	close(fd);
	return 0;
}

void subject_agent_leave(struct subject *subject)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int tries = 0;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d.agent", subject->dir,
		 subject->pid);
	cr_assert(AWAIT(agent_has_left(&address, tries++)), "%s", address.sun_path);
}

int subject_lives(const struct subject *subject)
{
	return waitpid(subject->pid, NULL, WNOHANG) == 0;
}

static long sleeps_of(const struct subject *subject)
{
	return target_status_number(subject->pid, "voluntary_ctxt_switches");
}

void subject_goes_on(const struct subject *subject)
{
	long before = sleeps_of(subject);

	cr_assert(AWAIT(!subject_lives(subject) || sleeps_of(subject) >= before + 2));
	cr_assert(subject_lives(subject), "it has ended");
}

char subject_state(const struct subject *subject)
{
	return target_thread_state(subject->pid, subject->pid);
}

int subject_map_count(const struct subject *subject)
{
	struct maps maps;
	int count;

	cr_assert_eq(maps_read(&maps, subject->pid), 0);
	count = (int)maps.count;
	maps_release(&maps);
	return count;
}

int subject_become(uid_t uid)
{
	char path[PATH_MAX];

	cr_assert(!setgroups(0, NULL) && !setgid(uid) && !setuid(uid));
	prctl(PR_SET_DUMPABLE, 1);
	subject_file(path, "waits");
	return !access(path, R_OK | X_OK);
}
