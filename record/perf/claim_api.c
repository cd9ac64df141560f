/* SPDX-License-Identifier: MIT */
/* The public API of claims. waymark/claim.h documents its promises. */
#include "record/perf/claim_places.h"
#include "record/perf/sized_copy.h"
#include "target/claim/holder.h"
#include "target/process/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/error.h>

#define DETAIL_BYTES 1024
/* as of the release that had it first */
#define REQUEST_BYTES (offsetof(struct wm_claim_request, what) + sizeof(const char *))

_Static_assert(WM_CLAIM_UNIT_DEBUG_REGISTER == (int)CLAIM_DEBUG_REGISTER &&
		       WM_CLAIM_UNIT_BRANCH == (int)CLAIM_BRANCH_UNIT &&
		       WM_CLAIM_UNIT_LOCKED_BYTES == (int)CLAIM_LOCKED_MEMORY &&
		       WM_CLAIM_UNIT_DESCRIPTORS == (int)CLAIM_DESCRIPTORS &&
		       WM_CLAIM_UNIT_SIGTRAP == (int)CLAIM_SIGTRAP &&
		       WM_CLAIM_UNIT_COUNTER == (int)CLAIM_COUNTER &&
		       WM_CLAIM_SCOPE_THREAD == (int)CLAIM_OF_THREAD &&
		       WM_CLAIM_SCOPE_PROCESS == (int)CLAIM_OF_PROCESS &&
		       WM_CLAIM_SCOPE_CPUS == (int)CLAIM_OF_CPU &&
		       WM_CLAIM_SCOPE_USER == (int)CLAIM_OF_USER &&
		       WM_CLAIM_SCOPE_SYSTEM == (int)CLAIM_OF_SYSTEM,
	       "inside and outside they are the same numbers");

struct wm_claim {
	pid_t owner; /* the process that reserved it */
	struct ledger *ledger;
	struct perf_object *object;
};

static _Thread_local char last_detail[DETAIL_BYTES];

/* Of this thread. */
static struct detail words(void)
{
	return (struct detail){ last_detail, sizeof(last_detail) };
}

const char *wm_claim_detail(void)
{
	return last_detail;
}

/* ---- what comes in ---- */

static int request_check(struct wm_claim_request *request)
{
	enum wm_claim_scope scope = request->scope;

	/* the kernel keeps no other unit for anyone */
	if (request->unit != WM_CLAIM_UNIT_DEBUG_REGISTER)
		return detail_set(words(), -EINVAL,
				  "request.unit: %d; only debug registers can be reserved",
				  (int)request->unit);
	if (scope < WM_CLAIM_SCOPE_THREAD || scope > WM_CLAIM_SCOPE_SYSTEM ||
	    scope == WM_CLAIM_SCOPE_USER)
		return detail_set(words(), -EINVAL, "request.scope: %d, for this unit", (int)scope);
	if (scope <= WM_CLAIM_SCOPE_PROCESS && request->pid <= 0)
		return detail_set(words(), -EINVAL, "request.pid: %d", (int)request->pid);
	if (scope == WM_CLAIM_SCOPE_CPUS && (!request->cpus || !request->cpu_count))
		return detail_set(words(), -EINVAL, "request.cpus: none");
	if (!request->count)
		request->count = 1;
	if (request->count > EVENT_SOURCES_MAX)
		return detail_set(words(), -EINVAL, "request.count: %" PRIu64 ", from 1 to %d",
				  request->count, EVENT_SOURCES_MAX);
	return 0;
}

/* Breakpoints that are never enabled. */
static int registers_reserve(struct wm_claim *claim, const struct wm_claim_request *asked)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request = {
		.scope = asked->scope == WM_CLAIM_SCOPE_SYSTEM ? EVENT_SYSTEM
							       : (enum event_scope)asked->scope,
		.pid = asked->pid,
		.cpus = asked->cpus,
		.cpu_count = asked->cpu_count,
		.sources = sources,
		.source_count = (unsigned int)asked->count,
		.ledger = claim->ledger,
	};
	int err;

	for (unsigned int i = 0; i < asked->count; i++)
		sources[i] = (struct event_source){
			.kind = EVENT_WRITE, .bytes = 1, .address = 1, .what = asked->what
		};
	err = perf_object_new(&claim->object, &request, words());
	return err ? err : perf_object_reserve(claim->object, words());
}

/* ---- its life ---- */

int wm_claim_reserve(struct wm_claim **claim, const struct wm_claim_request *request)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_claim_request asked;
	struct wm_claim *new;
	int err;

	last_detail[0] = '\0';
	if (!claim)
		return detail_set(words(), -EINVAL, "no place for the claim");
	*claim = NULL;
	if (!request)
		return detail_set(words(), -EINVAL, "no request");
	err = sized_copy(&asked, sizeof(asked), request, request->size, REQUEST_BYTES);
	if (err)
		return detail_set(words(), err, "request.size: %zu", request->size);
	err = request_check(&asked);
	if (err)
		return err;
	if (!asked.what)
		asked.what = "reserved";
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->owner = getpid();
	err = ledger_new(&new->ledger);
	if (!err)
		err = registers_reserve(new, &asked);
	if (err)
		wm_claim_release(new);
	else
		*claim = new;
	return err;
}

void wm_claim_release(struct wm_claim *claim)
{
	struct session_call call SESSION_CALL = session_call_begin();

	if (!claim)
		return;
	if (claim->owner == getpid())
		perf_object_release(claim->object);
	else
		perf_object_leave(claim->object);
	ledger_free(claim->ledger);
	free(claim);
}

int claim_places(struct wm_claim *claim, struct event_request *request, struct detail why)
{
	int err;

	if (claim->owner != getpid())
		return detail_set(why, -EINVAL, "request.claim: it is another process's");
	err = perf_object_reserves(claim->object, request, why);
	if (!err)
		request->reserved = claim->object;
	return err;
}

/* ---- the list ---- */

struct listing {
	int (*row)(const struct wm_claim_row *row, void *data);
	void *data;
};

static int list_rows(const struct listing *listing, const struct claim_list *list)
{
	int err = 0;

	for (size_t i = 0; i < list->count && !err; i++) {
		const struct claim_row *from = &list->rows[i];
		struct wm_claim_row row = {
			.size = sizeof(row),
			.unit = (enum wm_claim_unit)from->claim.resource,
			.scope = (enum wm_claim_scope)from->claim.scope,
			.target = from->claim.target,
			.flags = (from->state == CLAIM_HELD ? WM_CLAIM_ROW_HELD : 0) |
				 (from->is_left ? WM_CLAIM_ROW_ENDED : 0) |
				 (from->is_foreign ? WM_CLAIM_ROW_OTHER_NAMESPACE : 0),
			.count = from->claim.count,
			.pid = from->owner.pid,
			.uid = from->owner.uid,
			.name = from->owner.comm,
			.what = from->claim.what,
			.since_ns = from->since_ns,
		};

		err = listing->row(&row, listing->data);
	}
	return err;
}

static int has_rows(const struct claim_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].owner.pid == pid)
			return 1;
	return 0;
}

/* Those that are not in the ledger. */
static int list_perf(const struct listing *listing, const struct claim_list *list)
{
	static const struct claim_wanted wanted = { CLAIM_LOCKED_MEMORY, 0, -1 };
	struct claim_holders holders;
	int err = claim_holders_find(&holders, &wanted);

	for (size_t i = 0; !err && i < holders.perf_count; i++) {
		const struct claim_perf *perf = &holders.perf[i];
		long uid = target_status_number(perf->pid, "Uid");
		struct wm_claim_row row = { .size = sizeof(row),
					    .flags = WM_CLAIM_ROW_HELD | WM_CLAIM_ROW_PERF,
					    .count = perf->descriptors,
					    .pid = perf->pid,
					    .uid = uid < 0 ? (uid_t)-1 : (uid_t)uid,
					    .name = perf->comm,
					    .what = "" };

		if (!has_rows(list, perf->pid))
			err = listing->row(&row, listing->data);
	}
	claim_holders_release(&holders);
	return err;
}

int wm_claim_list(int (*row)(const struct wm_claim_row *row, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();
	const struct listing listing = { row, data };
	struct claim_list list = { 0 };
	int unread, err;

	if (!row)
		return -EINVAL;
	unread = claim_list_read_all(&list);
	err = list_rows(&listing, &list);
	if (!err)
		err = list_perf(&listing, &list);
	claim_list_release(&list);
	return err ? err : unread;
}
