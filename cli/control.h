/* SPDX-License-Identifier: MIT */
/*
 * A running recording is changed by `waymark control`, through a socket in the trace's folder. A
 * recorder that is killed leaves that there, and nothing listens at it.
 */
#ifndef CLI_CONTROL_H
#define CLI_CONTROL_H

#include <stdint.h>

struct wm_session;

struct control {
	int folder, listener; /* -1: none */
	int client;	      /* -1: none. Its request is awaited; others wait in the queue. */
	uint64_t since_ns;
	/*
	 * Write a snapshot, or continue in another folder, and give its name. -EOPNOTSUPP: that is
	 * not what this recording does. The caller sets it after control_begin(); NULL: the same.
	 */
	int (*folder_write)(void *data, int is_rotation, const char **name);
	void *data;
};

/* Listen in the trace's folder. Where that fails, the recording can't be changed, and continues. */
void control_begin(struct control *control, const char *dir);

/* Do what a client asks, if one does. Never waits for it. */
void control_serve(struct control *control, struct wm_session *session);

/* Listen no more, and remove the socket. */
void control_end(struct control *control);

#endif
