/* SPDX-License-Identifier: MIT */
/*
 * One session, started and stopped again and again: watch_restart HOW. Each time as many stores are
 * reported as were made; after the second stop one watch more is added.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/session.h>

#define ROUNDS 7
#define STORES 50u

static volatile uint64_t first, second;
static unsigned int reported[2];

static int on_event(const struct wm_event *event, void *data)
{
	(void)data;
	reported[strstr(event->name, "second") != NULL]++;
	return 0;
}

/* Whatever comes on `go` is so many stores, which are over when it is answered. */
static void stores(int go, int done)
{
	char order;

	while (read(go, &order, 1) == 1) {
		for (unsigned int i = 0; i < STORES; i++) {
			first++;
			second++;
		}
		if (write(done, &order, 1) != 1)
			break;
	}
}

static int fail(struct wm_session *session, const char *what, int err)
{
	printf("%s: %d %s\n", what, err, session ? wm_session_detail(session) : "");
	return 1;
}

static int go_on(struct wm_session *session, int go, int done, unsigned int round)
{
	unsigned int watches = round < 2 ? 1 : 2;
	char order = 'x';
	int err = wm_session_start(session);

	if (err)
		return fail(session, "start", err);
	memset(reported, 0, sizeof(reported));
	if (write(go, &order, 1) != 1 || read(done, &order, 1) != 1)
		return fail(NULL, "the program", 0);
	err = wm_session_stop(session);
	if (err)
		return fail(session, "stop", err);
	wm_session_read(session, on_event, NULL);
	if (reported[0] == STORES && reported[1] == (watches - 1) * STORES)
		return 0;
	printf("round %u: %u and %u were reported\n", round, reported[0], reported[1]);
	return 1;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	char specs[2][64];
	int go[2], done[2], err, bad = 0;
	struct wm_session *session;
	pid_t pid;

	if (pipe(go) || pipe(done))
		return 1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		stores(go[0], done[1]);
		_exit(0);
	}
	snprintf(specs[0], sizeof(specs[0]), "watch:first%s", how);
	snprintf(specs[1], sizeof(specs[1]), "watch:second%s", how);
	err = wm_session_open(&session, NULL);
	if (!err)
		err = wm_session_add(session, specs[0]);
	if (!err)
		err = wm_session_attach(session, pid);
	if (err)
		bad = fail(session, "attach", err);
	for (unsigned int round = 0; round < ROUNDS && !bad; round++) {
		if (round == 2 && wm_session_add(session, specs[1]))
			bad = fail(session, "add", 0);
		if (!bad)
			bad = go_on(session, go[1], done[0], round);
	}
	wm_session_close(session);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return bad;
}
