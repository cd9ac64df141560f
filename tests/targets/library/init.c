/* SPDX-License-Identifier: MIT */
#include <waymark/claim.h>
#include <waymark/session.h>
#include <waymark/trace.h>
#include <waymark/trail.h>
#define HAS(type, init)                                                                            \
	do {                                                                                       \
		struct type made = init;                                                           \
		if (made.size != sizeof(made))                                                     \
			return 1;                                                                  \
	} while (0)
int main(void)
{
	struct wm_session_options session = WM_SESSION_OPTIONS_INIT;
	struct wm_trail_options trail = WM_TRAIL_OPTIONS_INIT;

	HAS(wm_session_options, WM_SESSION_OPTIONS_INIT);
	HAS(wm_session_status, WM_SESSION_STATUS_INIT);
	HAS(wm_trace_options, WM_TRACE_OPTIONS_INIT);
	HAS(wm_trail_options, WM_TRAIL_OPTIONS_INIT);
	HAS(wm_trail_status, WM_TRAIL_STATUS_INIT);
	HAS(wm_trail_step, WM_TRAIL_STEP_INIT);
	HAS(wm_branch, WM_BRANCH_INIT);
	HAS(wm_claim_request, WM_CLAIM_REQUEST_INIT);
	HAS(wm_kevent_source, WM_KEVENT_SOURCE_INIT);
	HAS(wm_kevent_request, WM_KEVENT_REQUEST_INIT);
	HAS(wm_kevent_status, WM_KEVENT_STATUS_INIT);
	HAS(wm_kevent_gap, WM_KEVENT_GAP_INIT);
	HAS(wm_kevent_coverage, WM_KEVENT_COVERAGE_INIT);
	return session.notify_fd != -1 || trail.notify_fd != -1;
}
