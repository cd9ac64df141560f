/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <waymark/error.h>
#include <waymark/session.h>
int main(void)
{
	struct wm_session *session;
	int err = wm_session_open(&session, NULL);

	if (!err && wm_session_add(session, "nonsense") < 0)
		puts(wm_error_text(-WM_E_SPEC));
	wm_session_close(session);
	return err != 0;
}
