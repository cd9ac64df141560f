/* SPDX-License-Identifier: MIT */
/* The last branches before a crash: trail PROGRAM [ARG]... Link with -lwaymark. */
#include <stdio.h>
#include <sys/wait.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define SHOWN 16

static void show(struct wm_trail_cursor *cursor)
{
	struct wm_trail_step step = WM_TRAIL_STEP_INIT;

	for (int i = 0; i < SHOWN; i++)
		wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_BRANCHES, &step);
	while (wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BRANCHES, &step) > 0)
		printf("%#14llx -> %#14llx  %s %s:%u\n", (unsigned long long)step.branch.from,
		       (unsigned long long)step.branch.to, step.function ? step.function : "?",
		       step.source ? step.source : "?", step.line);
}

int main(int argc, char **argv)
{
	struct wm_trail_cursor *cursor = NULL;
	struct wm_trail *trail;
	int status = 0, pid = argc > 1 ? wm_trail_launch(&trail, argv + 1, NULL) : -1;

	if (pid < 0) {
		fprintf(stderr, "trail: %s: %s\n", wm_error_text(pid), wm_trail_detail(NULL));
		return 1;
	}
	wm_trail_wait(trail, -1);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && !wm_trail_cursor_open(&cursor, trail, 0))
		show(cursor);
	wm_trail_cursor_close(cursor);
	wm_trail_close(trail);
	return !WIFSIGNALED(status);
}
