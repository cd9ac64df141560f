/* SPDX-License-Identifier: MIT */
#include "target/process/stale.h"

#include "target/process/tool_socket.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOBODYS_PID "4194305" /* above the largest that Linux gives */

static char dir[] = "/tmp/wm-stale-XXXXXX";
static int folder;

static void begin(void)
{
	cr_assert_not_null(mkdtemp(dir));
	folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(folder, 0);
}

/* A socket that was made so many seconds ago. Its descriptor, which does not listen. */
static int make(const char *name, time_t age_s)
{
	const struct timespec times[2] = { { time(NULL) - age_s, 0 }, { time(NULL) - age_s, 0 } };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(utimensat(folder, name, times, 0), 0);
	return fd;
}

static int is_there(const char *name)
{
	return !faccessat(folder, name, F_OK, 0);
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_assert_eq(system(command), 0);
}

Test(stale, socket_of_dead_process_is_removed)
{
	begin();
	close(make(NOBODYS_PID ".agent", 2 * STALE_AGE_S));
	close(make(NOBODYS_PID "-3.agent", 2 * STALE_AGE_S));
	close(make(NOBODYS_PID "-1.tool", 2 * STALE_AGE_S));
	stale_remove(folder, time(NULL));
	cr_assert_not(is_there(NOBODYS_PID ".agent"));
	cr_assert_not(is_there(NOBODYS_PID "-3.agent"));
	cr_assert_not(is_there(NOBODYS_PID "-1.tool"));
	end();
}

/* It may be bound and about to listen, by a process that has another pid in its namespace. */
Test(stale, young_socket_stays)
{
	begin();
	close(make(NOBODYS_PID ".agent", STALE_AGE_S / 2));
	stale_remove(folder, time(NULL));
	cr_assert(is_there(NOBODYS_PID ".agent"));
	end();
}

Test(stale, socket_with_listener_stays)
{
	int fd;

	begin();
	fd = make(NOBODYS_PID ".agent", 2 * STALE_AGE_S);
	cr_assert_eq(listen(fd, 1), 0);
	stale_remove(folder, time(NULL));
	cr_assert(is_there(NOBODYS_PID ".agent"));
	end();
}

/* This process began before the one socket was made, and long after the other was. */
Test(stale, socket_of_living_process_stays_unless_the_pid_was_reused)
{
	char own[32], reused[32];

	begin();
	snprintf(own, sizeof(own), "%d.agent", (int)getpid());
	snprintf(reused, sizeof(reused), "%d-1.tool", (int)getpid());
	close(make(own, 0));
	close(make(reused, 10 * STALE_AGE_S));
	stale_remove(folder, time(NULL) + 2 * STALE_AGE_S);
	cr_assert(is_there(own));
	cr_assert_not(is_there(reused));
	end();
}

Test(stale, other_files_stay)
{
	begin();
	close(make(NOBODYS_PID ".sock", 2 * STALE_AGE_S));
	close(make("a.agent", 2 * STALE_AGE_S));
	close(make(NOBODYS_PID "x.tool", 2 * STALE_AGE_S));
	stale_remove(folder, time(NULL) + 10 * STALE_AGE_S);
	cr_assert(is_there(NOBODYS_PID ".sock"));
	cr_assert(is_there("a.agent"));
	cr_assert(is_there(NOBODYS_PID "x.tool"));
	end();
}

Test(stale, listener_removes_what_killed_tools_left)
{
	struct listener *listener;

	begin();
	close(make(NOBODYS_PID "-1.tool", 2 * STALE_AGE_S));
	cr_assert_eq(tool_socket_listener_new(&listener, dir, fcntl(folder, F_DUPFD_CLOEXEC, 0),
					      geteuid()),
		     0);
	cr_assert_not(is_there(NOBODYS_PID "-1.tool"));
	tool_socket_listener_free(listener);
	end();
}
