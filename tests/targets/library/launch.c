/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <waymark/error.h>
#include <waymark/session.h>
int main(int argc, char **argv)
{
	struct wm_session_options options = { .size = sizeof(options), .agent_path = argv[1] };
	struct wm_session *session;
	int err = wm_session_open(&session, &options);

	if (!err)
		err = wm_session_add(session, "marker:install:test");
	if (!err)
		err = wm_session_launch(session, (char *[]){ "./marked", NULL });
	printf("%s: %s\n", err > 0 ? "launched" : wm_error_text(err), wm_session_detail(session));
	wm_session_close(session);
	return (void)argc, err > 0 && waitpid(err, NULL, 0) != err;
}
