/* SPDX-License-Identifier: MIT */
/* The results of a step's wait, for processes that are socket pairs, and for children. */

#include "record/session/process.h"
#include "record/trail/live.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHORT_NS 1000000u
#define LONG_NS 20000000000u /* never reached: something comes before */

struct scene {
	struct wm_session session;
	struct live live;
	struct process processes[2];
	struct listener listener;
	int far[3]; /* the other ends of the two links and of the listener */
};

static void scene_begin(struct scene *scene)
{
	int *near[3] = { &scene->processes[0].link.fd, &scene->processes[1].link.fd,
			 &scene->listener.fd };

	*scene = (struct scene){ .session = { .epoll = -1, .wake = -1 } };
	for (int i = 0; i < 3; i++) {
		int ends[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		*near[i] = ends[0];
		scene->far[i] = ends[1];
	}
	for (int i = 0; i < 2; i++) {
		scene->processes[i].pidfd = -1;
		scene->processes[i].state = PROCESS_OPENED;
		scene->processes[i].gathered[0] = scene->processes[i].gathered[1] = -1;
	}
	scene->processes[0].next = &scene->processes[1];
	scene->listener.gathered = -1;
	scene->session.live = &scene->live;
	scene->session.processes = scene->processes;
	scene->session.listeners = &scene->listener;
}

static void scene_end(struct scene *scene)
{
	for (int i = 0; i < 3; i++)
		close(scene->far[i]);
	for (int i = 0; i < 2; i++) {
		if (scene->processes[i].link.fd >= 0)
			close(scene->processes[i].link.fd);
		if (scene->processes[i].pidfd >= 0)
			close(scene->processes[i].pidfd);
	}
	close(scene->listener.fd);
	if (scene->session.epoll >= 0)
		close(scene->session.epoll);
	free(scene->session.polls);
}

static void say(int fd)
{
	cr_assert_eq(write(fd, "x", 1), 1);
}

static void hear(int fd)
{
	char byte;

	cr_assert_eq(read(fd, &byte, 1), 1);
}

/* Each kind of input in turn: it is seen at once, and only while it is there. */
static void expect_all_seen(struct scene *scene)
{
	for (int round = 0; round < 3; round++) {
		session_poll(&scene->session, SHORT_NS);
		cr_assert(scene->processes[0].is_still);
		cr_assert(scene->processes[1].is_still);
		cr_assert(scene->listener.is_still);

		say(scene->far[1]);
		session_poll(&scene->session, LONG_NS);
		cr_assert(scene->processes[0].is_still);
		cr_assert_not(scene->processes[1].is_still);
		hear(scene->processes[1].link.fd);

		say(scene->far[2]);
		session_poll(&scene->session, LONG_NS);
		cr_assert_not(scene->listener.is_still);
		cr_assert(scene->processes[1].is_still);
		hear(scene->listener.fd);
	}
	scene->processes[0].unread = 1;
	session_poll(&scene->session, SHORT_NS);
	cr_assert_not(scene->processes[0].is_still, "the last pump left messages");
}

Test(back_off, doze_reports_ready_descriptors)
{
	struct scene scene;

	scene_begin(&scene);
	expect_all_seen(&scene);
	scene_end(&scene);
}

Test(back_off, doze_without_free_descriptor_polls)
{
	struct rlimit limit, few;
	struct scene scene;
	int lowest;

	scene_begin(&scene);
	lowest = dup(scene.far[0]);
	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){ (rlim_t)lowest, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	expect_all_seen(&scene);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(scene.session.epoll, -1);
	scene_end(&scene);
}

Test(back_off, doze_reused_descriptor_number_is_watched)
{
	struct scene scene;
	int number, ends[2];

	scene_begin(&scene);
	session_poll(&scene.session, SHORT_NS);
	number = scene.processes[0].link.fd;
	close(number);
	scene.processes[0].link.fd = -1;
	/* the same number, as the lowest free one, but of another process */
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	cr_assert_eq(ends[0], number);
	close(scene.processes[1].link.fd);
	scene.processes[1] = (struct process){
		.link.fd = number, .pidfd = -1, .state = PROCESS_OPENED, .gathered = { -1, -1 }
	};
	say(ends[1]);
	session_poll(&scene.session, LONG_NS);
	cr_assert_not(scene.processes[0].is_still, "it has no link");
	cr_assert_not(scene.processes[1].is_still);
	close(ends[1]);
	scene_end(&scene);
}

Test(back_off, doze_with_copy_of_closed_descriptor_sees_others)
{
	struct scene scene;
	int copy;

	scene_begin(&scene);
	session_poll(&scene.session, SHORT_NS);
	copy = dup(scene.processes[0].link.fd);
	close(scene.processes[0].link.fd);
	scene.processes[0].link.fd = -1;
	say(scene.far[0]); /* ready in the epoll descriptor, but of no process */
	session_poll(&scene.session, SHORT_NS);
	cr_assert(scene.processes[1].is_still);
	say(scene.far[1]);
	session_poll(&scene.session, LONG_NS);
	cr_assert_not(scene.processes[1].is_still);
	close(copy);
	scene_end(&scene);
}

Test(back_off, doze_reports_death_once)
{
	struct scene scene;
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	scene_begin(&scene);
	scene.processes[0].pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	if (scene.processes[0].pidfd < 0)
		cr_skip_test("this kernel has no pidfd_open(2)");
	session_poll(&scene.session, SHORT_NS);
	cr_assert(scene.processes[0].is_alive);
	kill(child, SIGKILL);
	session_poll(&scene.session, LONG_NS);
	cr_assert_not(scene.processes[0].is_alive);
	cr_assert_not(scene.processes[0].is_still, "its last message may have come since");
	scene.processes[0].dead = 1;
	session_poll(&scene.session, SHORT_NS);
	cr_assert(scene.processes[0].is_still);
	cr_assert_eq(scene.processes[0].gathered[1], -1, "a dead process's pidfd is removed");
	waitpid(child, NULL, 0);
	scene_end(&scene);
}
