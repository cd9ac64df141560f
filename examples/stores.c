/* SPDX-License-Identifier: MIT */
/* Which code stores to 8 bytes: stores PID ADDRESS, until the process ends. Link with -lwaymark. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>
#include <waymark/kevent.h>

static int show(const struct wm_kevent_hit *hit, void *out)
{
	return fprintf((FILE *)out, "%d %#llx\n", hit->tid, (unsigned long long)hit->ip) < 0;
}

int main(int argc, char **argv)
{
	struct wm_kevent_source source = WM_KEVENT_SOURCE_INIT;
	struct wm_kevent_request request = WM_KEVENT_REQUEST_INIT;
	struct wm_kevent_status status = WM_KEVENT_STATUS_INIT;
	struct wm_kevent *object;

	source.kind = WM_KEVENT_KIND_WRITE;
	source.bytes = 8;
	source.address = argc < 3 ? 0 : strtoull(argv[2], NULL, 0);
	request.scope = WM_KEVENT_SCOPE_PROCESS;
	request.flags = WM_KEVENT_FLAG_RINGS;
	request.pid = argc < 3 ? 0 : atoi(argv[1]);
	request.sources = &source;
	request.source_count = 1;
	int err = wm_kevent_open(&object, &request);
	err = err ? err : wm_kevent_arm(object);
	fprintf(stderr, "stores: %s %s\n", wm_error_text(err), wm_kevent_detail(object));
	while (!err && !status.has_target_ended) {
		struct pollfd ready = { wm_kevent_fd(object), POLLIN, 0 };
		poll(&ready, 1, 1000);
		err = wm_kevent_status_get(object, &status) || wm_kevent_read(object, show, stdout);
	}
	err = err ? err : wm_kevent_disarm(object) || wm_kevent_read(object, show, stdout);
	wm_kevent_close(object);
	return err != 0;
}
