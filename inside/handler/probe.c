/* SPDX-License-Identifier: MIT */
/*
 * include/waymark/probe.h: the program's own handlers, in terms of the registry.
 */
#include <waymark/probe.h>

#include "inside/control/agent.h"
#include "inside/marker/marker.h"
#include "inside/patch/text.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/event_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REMOVE_MS 10000
#define NAME_BYTES_MAX 512

struct wm_probe {
	struct plan_probe plan;
	char kind;
	unsigned char types[16];
	char name[];
};

/* Wait until no thread runs a handler that was taken away; 0, -ETIMEDOUT. */
static int settle(void)
{
	/* inside a handler, this thread's own hit still uses the old plan: a later reap frees it */
	int error = store_self_is_inside() ? 0 : planning_reap(REMOVE_MS, 0);

	/* planning_reap() is not enough: another thread may be reaping this probe's plan */
	if (!error)
		error = store_quiesce(REMOVE_MS, 1);
	if (!error)
		probe_order_after(&probe_ran);
	return error;
}

__attribute__((visibility("default"))) int wm_probe_add(struct wm_probe **probe, const char *name,
							char kind, const unsigned char types[16],
							wm_probe_call call, wm_probe_fn fn,
							void *data)
{
	size_t name_bytes = name ? strlen(name) + 1 : 0;
	struct wm_probe *made;
	struct reentrancy_guard guard;
	struct text text;
	int error;

	if (!probe)
		return -EINVAL;
	*probe = NULL;
	if (!name || !types || !call || !fn || !memchr("mibe", kind, 4) ||
	    name_bytes > NAME_BYTES_MAX || !strchr(name, ':'))
		return -EINVAL;
	made = calloc(1, sizeof *made + name_bytes);
	if (!made)
		return -ENOMEM;
	made->plan = (struct plan_probe){ .call = call, .fn = fn, .data = data };
	made->kind = kind;
	for (unsigned int i = 0; i < sizeof made->types && types[i]; i++)
		made->types[i] = types[i];
	memcpy(made->name, name, name_bytes);

	probe_order_before(&probe_added);
	*probe = made;			/* before the handler can run, which may remove itself */
	reentrancy_guard_enter(&guard); /* ignore hits in code that the agent calls */
	error = agent_enter(&text);
	if (!error) {
		error = registry_probe_add(&text, made->name, kind, made->types, &made->plan, 1);
		agent_leave(&text);
	}
	reentrancy_guard_leave(&guard);
	if (error < 0) {
		*probe = NULL;
		/* a handler that ran before the removal may have the pointer: leave it then */
		if (!settle())
			free(made);
	}
	return error;
}

__attribute__((visibility("default"))) int wm_probe_status(struct wm_probe *probe)
{
	struct reentrancy_guard guard;
	struct text text;
	int status;

	if (!probe)
		return -EINVAL;
	reentrancy_guard_enter(&guard);
	status = agent_enter(&text);
	if (!status) {
		status = registry_probe_status(probe->name, probe->kind, probe->types,
					       &probe->plan);
		agent_leave(&text);
	}
	reentrancy_guard_leave(&guard);
	return status;
}

__attribute__((visibility("default"))) int wm_probe_remove(struct wm_probe *probe)
{
	struct reentrancy_guard guard;
	struct text text;
	int error;

	if (!probe)
		return 0;
	reentrancy_guard_enter(&guard);
	error = agent_enter(&text);
	if (!error) {
		error = registry_probe_remove(&text, probe->name, probe->kind, &probe->plan);
		agent_leave(&text);
	}
	reentrancy_guard_leave(&guard);
	if (!error)
		error = settle();
	if (!error)
		free(probe);
	return error;
}
