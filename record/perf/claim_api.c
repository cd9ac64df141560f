/* SPDX-License-Identifier: MIT */
/* The public API of claims. waymark/claim.h documents its promises. */
#include "base/number_file.h"
#include "record/perf/claim_places.h"
#include "record/perf/counter_claims.h"
#include "record/perf/sized_copy.h"
#include "target/claim/holder.h"
#include "target/claim/limits.h"
#include "target/process/call.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define DETAIL_BYTES 1024
#define UNITS "/sys/bus/event_source/devices/"
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
	struct perf_object *object;	/* debug registers */
	struct counter_claims counters; /* counters */
	int fd;				/* the branch unit's; -1: none */
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

static int scope_check(const struct wm_claim_request *request)
{
	enum wm_claim_scope scope = request->scope;

	if (scope < WM_CLAIM_SCOPE_THREAD || scope > WM_CLAIM_SCOPE_SYSTEM ||
	    (scope == WM_CLAIM_SCOPE_USER) != (request->unit == WM_CLAIM_UNIT_LOCKED_BYTES))
		return detail_set(words(), -EINVAL, "request.scope: %d, for this unit", (int)scope);
	if (scope <= WM_CLAIM_SCOPE_PROCESS && request->pid <= 0)
		return detail_set(words(), -EINVAL, "request.pid: %d", (int)request->pid);
	if (scope == WM_CLAIM_SCOPE_CPUS && (!request->cpus || !request->cpu_count))
		return detail_set(words(), -EINVAL, "request.cpus: none");
	return 0;
}

static int count_check(struct wm_claim_request *request)
{
	uint64_t most = 1;

	if (request->unit == WM_CLAIM_UNIT_DEBUG_REGISTER)
		most = EVENT_SOURCES_MAX;
	else if (request->unit == WM_CLAIM_UNIT_LOCKED_BYTES)
		most = UINT64_MAX;
	if (!request->count && request->unit != WM_CLAIM_UNIT_LOCKED_BYTES)
		request->count = 1;
	if (!request->count || request->count > most)
		return detail_set(words(), -EINVAL,
				  "request.count: %" PRIu64 ", from 1 to %" PRIu64, request->count,
				  most);
	return 0;
}

static int request_check(struct wm_claim_request *request)
{
	int err;

	if (request->unit != WM_CLAIM_UNIT_DEBUG_REGISTER &&
	    request->unit != WM_CLAIM_UNIT_BRANCH && request->unit != WM_CLAIM_UNIT_LOCKED_BYTES &&
	    request->unit != WM_CLAIM_UNIT_COUNTER)
		return detail_set(words(), -EINVAL, "request.unit: %d", (int)request->unit);
	if (!request->event != (request->unit != WM_CLAIM_UNIT_COUNTER))
		return detail_set(words(), -EINVAL, "request.event: %s",
				  request->event ? "not for this unit" : "none");
	err = scope_check(request);
	return err ? err : count_check(request);
}

/* ---- units ---- */

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

static int counters_reserve(struct wm_claim *claim, const struct wm_claim_request *asked)
{
	struct counts_request request = { .scope = COUNTS_CPUS,
					  .event_count = 1,
					  .ids = &asked->pid,
					  .id_count = 1,
					  .cpus = asked->cpus,
					  .cpu_count = asked->cpu_count,
					  .cgroup_fd = -1 };
	struct count_event *event = calloc(1, sizeof(*event));
	int err = event ? count_event_read(event, asked->event, words()) : -ENOMEM;

	if (!err)
		err = count_event_probe(event, words());
	if (asked->scope == WM_CLAIM_SCOPE_THREAD)
		request.scope = COUNTS_THREADS;
	else if (asked->scope == WM_CLAIM_SCOPE_PROCESS)
		request.scope = COUNTS_PROCESSES;
	request.events = event;
	if (!err)
		err = counter_claims_take(&claim->counters, &request, asked->what, 1, words());
	free(event);
	return err;
}

static int unit_open(long type)
{
	struct perf_event_attr attr = { .type = (uint32_t)type,
					.size = sizeof(attr),
					.disabled = 1,
					.exclude_kernel = 1,
					.exclude_hv = 1 };
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int unit_refused(int err)
{
	static const struct claim_wanted wanted = { CLAIM_BRANCH_UNIT, 0, -1 };

	if (err == -EBUSY) {
		claim_holder_text(&wanted, last_detail, sizeof(last_detail));
		return -WM_E_PERF_TAKEN;
	}
	if (err == -EACCES || err == -EPERM)
		err = -WM_E_PERF_DENIED;
	else if (err == -ENOENT || err == -ENODEV || err == -EOPNOTSUPP || err == -EINVAL)
		err = -WM_E_TRAIL_NO_UNIT;
	return detail_set(words(), err, "the branch unit");
}

/* One event is enough: the kernel counts units of the whole machine. */
static int branch_reserve(struct wm_claim *claim, const struct wm_claim_request *asked)
{
	struct claim row = { .resource = CLAIM_BRANCH_UNIT,
			     .scope = (enum claim_scope)asked->scope,
			     .target = asked->scope <= WM_CLAIM_SCOPE_PROCESS ? asked->pid : 0,
			     .count = 1 };
	const struct units units = { 1, 0, -1, "branch units", -WM_E_PERF_TAKEN };
	long type = number_file_read(UNITS "intel_pt/type", -1);
	uint64_t id;
	int err;

	if (asked->scope == WM_CLAIM_SCOPE_CPUS)
		row.target = (int32_t)asked->cpus[0];
	snprintf(row.what, sizeof(row.what), "%s", asked->what ? asked->what : "reserved");
	type = type < 0 ? number_file_read(UNITS "intel_bts/type", -1) : type;
	if (type < 0)
		return detail_set(words(), -WM_E_TRAIL_NO_UNIT, "neither intel_pt nor intel_bts");
	err = claim_units(claim->ledger, &row, 1, &id, &units, words());
	if (err)
		return err;
	claim->fd = unit_open(type);
	if (claim->fd < 0)
		return unit_refused(claim->fd);
	ledger_confirm(claim->ledger, &id, 1);
	return 0;
}

/* CAP_IPC_LOCK in effect: the limits of locked memory do not hold. */
static int may_lock_all(void)
{
	return target_status_mask(getpid(), "CapEff") >> CAP_IPC_LOCK & 1;
}

/* What the kernel lets a user lock for rings (kernel/events/core.c, perf_mmap()). */
static uint64_t lockable_bytes(void)
{
	long kib = number_file_read("/proc/sys/kernel/perf_event_mlock_kb", 0);
	struct rlimit limit;

	if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return (uint64_t)kib * 1024 * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) + limit.rlim_cur;
}

static int bytes_reserve(struct wm_claim *claim, const struct wm_claim_request *asked)
{
	struct claim row = { .resource = CLAIM_LOCKED_MEMORY,
			     .scope = CLAIM_OF_USER,
			     .target = (int32_t)geteuid(),
			     .count = asked->count };
	struct units units = { lockable_bytes(), 0, -1, "bytes that this user may lock",
			       -WM_E_MEMORY_LIMIT };
	uint64_t id;
	int err;

	snprintf(row.what, sizeof(row.what), "%s", asked->what ? asked->what : "reserved");
	err = claim_units(claim->ledger, &row, 1, &id, &units, words());
	if (!err)
		ledger_confirm(claim->ledger, &id, 1);
	return err;
}

/* ---- its life ---- */

static int unit_reserve(struct wm_claim *claim, const struct wm_claim_request *asked)
{
	switch (asked->unit) {
	case WM_CLAIM_UNIT_DEBUG_REGISTER:
		return registers_reserve(claim, asked);
	case WM_CLAIM_UNIT_COUNTER:
		return counters_reserve(claim, asked);
	case WM_CLAIM_UNIT_BRANCH:
		return branch_reserve(claim, asked);
	default:
		return bytes_reserve(claim, asked);
	}
}

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
	new->fd = -1;
	err = ledger_new(&new->ledger);
	if (!err)
		err = unit_reserve(new, &asked);
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
	if (claim->fd >= 0)
		close(claim->fd);
	counter_claims_give(&claim->counters);
	ledger_free(claim->ledger);
	free(claim);
}

int claim_places(struct wm_claim *claim, struct event_request *request, struct detail why)
{
	int err;

	if (claim->owner != getpid() || !claim->object)
		return detail_set(why, -EINVAL, "request.claim: it has no debug registers");
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
