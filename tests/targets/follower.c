/* SPDX-License-Identifier: MIT */
/*
 * Uses the public API on a ticker (ticker.c): follower PID. Reads live, checks that each thread's
 * events come whole and in order, stops, reads the rest, and starts again. 0 when all is well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

#define TIDS (1 << 22)

struct follower {
	int64_t *next; /* by tid: the value that its next event must have; 0: not known */
	uint64_t *last_ns;
	uint64_t count;
	const char *wrong;
};

static int follow(const struct wm_event *event, void *data)
{
	struct follower *follower = data;
	uint32_t tid = event->tid % TIDS;
	int64_t value;

	follower->count++;
	if (strcmp(event->name, "ticker:tick") || event->field_count != 2 ||
	    strcmp(event->fields[0].name, "i") || strcmp(event->fields[1].name, "who") ||
	    event->fields[1].type != WM_TYPE_STR ||
	    strcmp(event->fields[1].value.run.start, "ticker")) {
		follower->wrong = "an event is not what was written";
		return 1;
	}
	value = event->fields[0].value.i;
	/* a thread's number may come again, and each thread counts from 0 */
	if (follower->next[tid] && value && value != follower->next[tid]) {
		follower->wrong = "a thread's events are not in their order";
		return 1;
	}
	if (event->realtime_ns < follower->last_ns[tid]) {
		follower->wrong = "a thread's time goes back";
		return 1;
	}
	follower->last_ns[tid] = event->realtime_ns;
	follower->next[tid] = value + 1;
	return 0;
}

static int check(struct wm_session *session, int err, const char *what)
{
	if (err < 0)
		fprintf(stderr, "%s: %s: %s\n", what, wm_error_text(err),
			wm_session_detail(session));
	return err < 0;
}

static int run(struct wm_session *session, struct follower *follower)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t before = follower->count;

	memset(follower->next, 0, TIDS * sizeof(*follower->next));
	if (check(session, wm_session_start(session), "start"))
		return 1;
	for (int i = 0; i < 50; i++) {
		if (check(session, wm_session_read(session, follow, follower), "read") ||
		    check(session, wm_session_wait(session, 10), "poll") || follower->wrong)
			return 1;
	}
	if (follower->count == before)
		follower->wrong = "nothing was read while the program ran";
	if (check(session, wm_session_stop(session), "stop") ||
	    check(session, wm_session_read(session, follow, follower), "last read"))
		return 1;
	wm_session_status_get(session, &status);
	if (status.recorded != follower->count)
		follower->wrong = "the status has another number than was read";
	return follower->wrong != NULL;
}

int main(int argc, char **argv)
{
	struct follower follower = {
		.next = calloc(TIDS, sizeof(int64_t)),
		.last_ns = calloc(TIDS, sizeof(uint64_t)),
	};
	struct wm_session *session;
	int failed;

	if (argc < 2 || !follower.next || !follower.last_ns || wm_session_open(&session, NULL))
		return 2;
	failed = check(session, wm_session_add(session, "marker:ticker:tick"), "add") ||
		 check(session, wm_session_attach(session, atoi(argv[1])), "attach") ||
		 run(session, &follower) || run(session, &follower);
	wm_session_close(session);
	if (follower.wrong)
		fprintf(stderr, "%s\n", follower.wrong);
	printf("%llu events\n", (unsigned long long)follower.count);
	free(follower.next);
	free(follower.last_ns);
	return failed;
}
