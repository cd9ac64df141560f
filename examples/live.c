/* SPDX-License-Identifier: MIT */
/* Live printer: live PID SPEC prints a process's events until it ends. Link with -lwaymark. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>
#include <waymark/session.h>

static int print_event(const struct wm_event *event, void *data)
{
	(void)data;
	printf("thread %u: %s, %u fields\n", event->tid, event->name, event->field_count);
	return fflush(stdout);
}

int main(int argc, char **argv)
{
	struct pollfd ready = { -1, POLLIN, 0 };
	struct wm_session *session;
	int err = argc < 3 ? -1 : wm_session_open(&session, NULL), alive = 1;

	if (err)
		return 2;
	err = wm_session_add(session, argv[2]);
	if (!err)
		err = wm_session_attach(session, atoi(argv[1]));
	if (!err)
		err = wm_session_start(session);
	ready.fd = err ? err : wm_session_fd(session); /* a loop of yours would add it to its own */
	err = ready.fd < 0 ? ready.fd : 0;
	while (!err && alive > 0) {
		poll(&ready, 1, -1);
		alive = wm_session_wait(session, 0);
		err = alive < 0 ? alive : wm_session_read(session, print_event, NULL);
	}
	if (err)
		fprintf(stderr, "live: %s: %s\n", wm_error_text(err), wm_session_detail(session));
	wm_session_close(session);
	return err != 0;
}
