/* SPDX-License-Identifier: MIT */
/*
 * Attaches to a process while its session runs: joiner PID LATER SPEC... Attaches to LATER once
 * something of PID was read, and ends when it has had some events, or PID if LATER was refused.
 * LATER "-": the pid that someone writes into ./child once ./go is there; "launch": ./ticker,
 * launched. Prints "joined PID" or "refused: WHY" to standard error, and to standard output a line
 * for each event.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

#define ENOUGH 100
#define WAITS_MAX 2000

struct joiner {
	uint32_t first, later;
	unsigned int of_first, of_later; /* events */
};

static int count(const struct wm_event *event, void *data)
{
	struct joiner *joiner = data;

	joiner->of_first += event->pid == joiner->first;
	/* counts are of all */
	joiner->of_first += !event->pid;
	joiner->of_later += event->pid == joiner->later || !event->pid;
	printf("{\"time_ns\": %llu, \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"fields\": {",
	       (unsigned long long)event->realtime_ns, event->name, event->pid, event->tid);
	for (uint32_t i = 0; i < event->field_count; i++)
		printf("%s\"%s\": %lld", i ? ", " : "", event->fields[i].name,
		       event->fields[i].type == WM_TYPE_STR ? 0
							    : (long long)event->fields[i].value.u);
	printf("}}\n");
	return 0;
}

static void check(struct wm_session *session, int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, wm_error_text(err), wm_session_detail(session));
	exit(1);
}

static void take(struct wm_session *session, struct joiner *joiner)
{
	check(session, wm_session_wait(session, 10), "wait");
	check(session, wm_session_read(session, count, joiner), "read");
}

static uint32_t later_pid(struct wm_session *session, struct joiner *joiner, const char *text)
{
	int pid = atoi(text);
	FILE *file;

	if (strcmp(text, "-"))
		return (uint32_t)pid;
	file = fopen("go", "w");
	if (file)
		fclose(file);
	for (int waits = 0; pid <= 0 && waits < WAITS_MAX; waits++) {
		take(session, joiner);
		file = fopen("child", "r");
		if (file && fscanf(file, "%d", &pid) != 1)
			pid = 0;
		if (file)
			fclose(file);
	}
	return (uint32_t)pid;
}

int main(int argc, char **argv)
{
	struct wm_session_options options = WM_SESSION_OPTIONS_INIT;
	struct joiner joiner = { 0 };
	struct wm_session *session;
	int err, waits = 0;

	if (argc < 4)
		return 2;
	options.follow = getenv("JOINER_FOLLOW_NONE") ? WM_FOLLOW_NONE : options.follow;
	joiner.first = (uint32_t)atoi(argv[1]);
	if (wm_session_open(&session, &options))
		return 2;
	for (int i = 3; i < argc; i++)
		check(session, wm_session_add(session, argv[i]), argv[i]);
	check(session, wm_session_attach(session, (pid_t)joiner.first), "attach");
	check(session, wm_session_start(session), "start");
	while (!joiner.of_first && waits++ < WAITS_MAX)
		take(session, &joiner);
	if (!strcmp(argv[2], "launch")) {
		err = wm_session_launch(session, (char *[]){ "./ticker", "50", "1", "300", NULL });
		joiner.later = err > 0 ? (uint32_t)err : 0;
		err = err > 0 ? 0 : err;
	} else {
		joiner.later = later_pid(session, &joiner, argv[2]);
		err = wm_session_attach(session, (pid_t)joiner.later);
	}
	if (err)
		fprintf(stderr, "refused: %s: %s\n", wm_error_text(err),
			wm_session_detail(session));
	else
		fprintf(stderr, "joined %u\n", joiner.later);
	joiner.of_first = joiner.of_later = 0;
	while ((err ? joiner.of_first : joiner.of_later) < ENOUGH && waits++ < WAITS_MAX)
		take(session, &joiner);
	check(session, wm_session_stop(session), "stop");
	check(session, wm_session_read(session, count, &joiner), "last read");
	wm_session_close(session);
	return waits >= WAITS_MAX;
}
