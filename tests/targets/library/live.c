/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <waymark/session.h>
static int pid, alive = 1;
static int print(const struct wm_event *event, void *data)
{
	const char *program = "";
	uint64_t ppid = 0;

	if (data && event->kind == 'q') /* the child has ended, and the parent sleeps */
		alive = kill(pid, SIGKILL);
	wm_event_field_u64(wm_event_field_find(event, "ppid"), &ppid);
	wm_event_field_string(wm_event_field_find(event, "program"), &program);
	printf("%c %s %u %" PRIu64 " %s\n", event->kind, event->name, event->pid, ppid,
	       strrchr(program, '/') ? strrchr(program, '/') : "");
	return 0;
}
int main(int argc, char **argv)
{
	struct wm_session_options options = { .size = sizeof(options), .process_events = argc < 3 };
	struct wm_session *session;
	int err = wm_session_open(&session, &options);

	if (!err)
		err = wm_session_add(session, "marker:forks:*");
	if (!err)
		err = pid = wm_session_launch(
			session, (char *[]){ "./forks", argc % 2 ? NULL : argv[1], NULL });
	if (err > 0)
		err = wm_session_start(session);
	while (!err && alive > 0) {
		alive = wm_session_wait(session, -1);
		err = alive < 0 ? alive : wm_session_read(session, print, argc == 2 ? &pid : NULL);
	}
	if (err)
		fprintf(stderr, "%d: %s\n", err, wm_session_detail(session));
	wm_session_close(session);
	return err || waitpid(pid, NULL, 0) != pid;
}
