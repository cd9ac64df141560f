/* SPDX-License-Identifier: MIT */
/* Probes and markers that were refused. */
#include "record/probe/probes.h"

#include "base/array.h"
#include "record/session/process.h"
#include "record/trail/live.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define REFUSALS_MAX 1000000
#define REFUSED_BYTES_MAX (1u << 20) /* of names, for each process: an agent may be hostile */
#define REFUSED_TEXT_MAX 2048

static int refusal_order(const void *a, const void *b)
{
	const struct probe_refusal *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : left->error - right->error;
}

int probe_refusal_add(struct wm_session *session, const struct probe_refusal *refusal)
{
	struct probe_refusals *list = &session->probes->refusals;
	struct probe_refusal *more;

	session->refused++;
	if (list->count >= REFUSALS_MAX)
		return 0;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	more = &list->all[list->count];
	*more = *refusal;
	more->name = strdup(refusal->name);
	more->module = strdup(refusal->module);
	more->detail = strdup(refusal->detail);
	list->count++; /* now, so that an incomplete one is freed too */
	return more->name && more->module && more->detail ? 0 : -ENOMEM;
}

static int is_plan_of(const struct plan *plan, const struct probed_module *module, uint64_t address)
{
	struct loaded_id id = module->id;

	id.start = plan->id.start;
	return loaded_id_is(&plan->id, &id) && address - module->base <= plan->last;
}

/* Find the plan with a place at this address in the process, and the module's base. NULL: none. */
static const struct plan *plan_around(const struct probes *probes, const struct probed *probed,
				      uint64_t address, uint64_t *base)
{
	const struct probed_module *module = NULL;
	const struct plan *plan = probes->plans;

	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base <= address &&
		    (!module || probed->modules[i].base > module->base))
			module = &probed->modules[i];
	while (plan && module && !is_plan_of(plan, module, address))
		plan = plan->next;
	if (!plan || !module)
		return NULL;
	*base = module->base;
	return plan;
}

/* Children of one server are refused the same places: keep each `text` once. */
static int refuse_once(struct wm_session *session, struct process *process,
		       const struct probe_refusal *refusal, const char *text)
{
	struct probe_refusal *key = calloc(1, sizeof(*key));
	struct probe_refusal **there;

	if (!key)
		return -ENOMEM;
	*key = (struct probe_refusal){ .name = (char *)text, .error = refusal->error };
	if (process->refused_bytes >= REFUSED_BYTES_MAX &&
	    !tfind(key, &session->probes->refusals.index, refusal_order)) {
		session->probes->refusals.left_out++;
		free(key);
		return 0;
	}
	key->name = strdup(text);
	there = key->name ? tsearch(key, &session->probes->refusals.index, refusal_order) : NULL;
	if (there && *there == key) {
		process->refused_bytes += strlen(text) + 1;
		return probe_refusal_add(session, refusal);
	}
	free(key->name);
	free(key);
	return there ? 0 : -ENOMEM;
}

int probe_refused(struct wm_session *session, struct process *process,
		  const struct control_refused *refused, const char *name)
{
	uint64_t base = 0;
	const struct plan *plan = plan_around(session->probes, &process->probed, refused->address,
					      &base);
	struct probe_refusal refusal = { .name = (char *)name,
					 .module = plan ? plan->path : "",
					 .detail = "",
					 .address = refused->address - base,
					 .error = refused->error,
					 .pid = process->pid };

	if (refusal.error == -WM_E_TRACED && live_is_wanted(session))
		refusal.error = -WM_E_TRAIL_STEPS; /* by our own tracer */
	return refuse_once(session, process, &refusal, name);
}

int probe_refused_marker(struct wm_session *session, struct process *process,
			 const struct control_refused *refused, const char *name,
			 const char *detail)
{
	struct probe_refusal refusal = { .name = (char *)name,
					 .module = "",
					 .detail = (char *)detail,
					 .address = refused->address,
					 .error = refused->error,
					 .pid = process->pid };
	char text[REFUSED_TEXT_MAX];

	snprintf(text, sizeof(text), "%s %s", name, detail);
	session->probes->refusals.has_markers = 1;
	return refuse_once(session, process, &refusal, text);
}

static void key_free(void *node)
{
	struct probe_refusal *key = node;

	free(key->name);
	free(key);
}

void probe_refusals_release(struct probe_refusals *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->all[i].name);
		free(list->all[i].module);
		free(list->all[i].detail);
	}
	free(list->all);
	tdestroy(list->index, key_free);
}
