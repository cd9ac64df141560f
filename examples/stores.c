/* SPDX-License-Identifier: MIT */
/*
 * Who stores to an address: stores PID ADDRESS [BYTES] tells thread and place of each store, of all threads of a process, until
 * it ends. Nothing comes into that process. Link with -lwaymark.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/kevent.h>

static int show(const struct wm_kevent_hit *hit, void *data)
{
	(void)data;
	printf("%d %#llx\n", (int)hit->tid, (unsigned long long)hit->ip);
	return 0;
}

int main(int argc, char **argv)
{
	struct wm_kevent_source source = { .size = sizeof(source), .kind = WM_KEVENT_KIND_WRITE };
	struct wm_kevent_request request = { .size = sizeof(request),
					     .scope = WM_KEVENT_SCOPE_PROCESS,
					     .flags = WM_KEVENT_FLAG_RINGS,
					     .sources = &source,
					     .source_count = 1 };
	struct wm_kevent_coverage coverage = { .size = sizeof(coverage) };
	struct wm_kevent_status status = { .size = sizeof(status) };
	struct wm_kevent *object = NULL;
	int err;

	if (argc < 3)
		return 2;
	request.pid = atoi(argv[1]);
	source.address = strtoull(argv[2], NULL, 0);
	source.bytes = argc > 3 ? (uint32_t)atoi(argv[3]) : 8;
	err = wm_kevent_open(&object, &request);
	if (!err)
		err = wm_kevent_arm(object);
	if (!err)
		fprintf(stderr, "stores of %d are seen now\n", request.pid);
	while (!err && wm_kevent_coverage(object, &coverage, NULL, 0) != -WM_E_GONE) {
		usleep(50000);
		err = wm_kevent_read(object, show, NULL);
	}
	if (err)
		fprintf(stderr, "stores: %s: %s\n", wm_error_text(err), wm_kevent_detail(object));
	if (!err) {
		wm_kevent_disarm(object);
		wm_kevent_read(object, show, NULL);
		wm_kevent_status_get(object, &status);
		fprintf(stderr, "%u threads at the last look; %llu hits found no room\n",
			coverage.opened + coverage.inherited, (unsigned long long)status.lost);
	}
	wm_kevent_close(object);
	return err != 0;
}
