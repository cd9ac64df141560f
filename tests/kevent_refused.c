/* SPDX-License-Identifier: MIT */
/*
 * Bad arguments for kernel event objects, each by name, with the installed header and library
 * alone. Prints what is wrong, and nothing else.
 */
#include "kevent_request.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

static int take_none(const struct wm_kevent_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	return 0;
}

static struct wm_kevent_source given[2];
static struct wm_kevent_request asked;

static void bad(const char *what, int error, const char *words)
{
	struct wm_kevent *object = (struct wm_kevent *)given;
	int err = wm_kevent_open(&object, &asked);

	answers(what, err, error, wm_kevent_detail(NULL));
	if (!strstr(wm_kevent_detail(NULL), words))
		wrong("%s: %s, not %s", what, wm_kevent_detail(NULL), words);
	if (object)
		wrong("%s: there is an object", what);
	given[0] = given[1] = source(WM_KEVENT_KIND_WRITE, 0, 8);
	asked = request(getpid(), given, 1, 0);
}

#define BAD(what, error, words, ...)                                                               \
	do {                                                                                       \
		__VA_ARGS__;                                                                       \
		bad(what, error, words);                                                           \
	} while (0)

static void bad_inputs(void)
{
	struct {
		struct wm_kevent_request request;
		uint64_t more;
	} larger;
	struct wm_kevent *object;

	given[0] = given[1] = source(WM_KEVENT_KIND_WRITE, 0, 8);
	asked = request(getpid(), given, 1, 0);
	BAD("no size", -EINVAL, "request.size: 0", asked.size = 0);
	BAD("a size of nothing", -E2BIG, "request.size", asked.size = (size_t)-1);
	BAD("no scope", -EINVAL, "request.scope: 0", asked.scope = (enum wm_kevent_scope)0);
	BAD("no such scope", -EINVAL, "request.scope: 9", asked.scope = (enum wm_kevent_scope)9);
	BAD("no pid", -EINVAL, "request.pid: 0", asked.pid = 0);
	BAD("a negative pid", -EINVAL, "request.pid: -4", asked.pid = -4);
	BAD("no such flag", -EINVAL, "request.flags: 0x400", asked.flags = 0x400);
	BAD("signal and rings", -EINVAL, "not both",
	    asked.flags = WM_KEVENT_FLAG_SIGNAL | WM_KEVENT_FLAG_RINGS);
	BAD("no CPUs", -EINVAL, "request.cpus", asked.scope = WM_KEVENT_SCOPE_CPUS);
	BAD("signals of CPUs", -EINVAL, "WM_KEVENT_FLAG_SIGNAL is not for CPUs",
	    asked.scope = WM_KEVENT_SCOPE_SYSTEM, asked.flags = WM_KEVENT_FLAG_SIGNAL);
	BAD("children of CPUs", -EINVAL, "WM_FOLLOW_CHILDREN is not for CPUs",
	    asked.scope = WM_KEVENT_SCOPE_SYSTEM, asked.follow = WM_FOLLOW_CHILDREN);
	BAD("an odd ring", -EINVAL, "request.ring_bytes: 5000", asked.flags = WM_KEVENT_FLAG_RINGS,
	    asked.ring_bytes = 5000);
	BAD("a ring without rings", -EINVAL, "without WM_KEVENT_FLAG_RINGS",
	    asked.ring_bytes = 4096);
	BAD("no such children", -EINVAL, "request.follow: 3", asked.follow = (enum wm_follow)3);
	BAD("no sources", -EINVAL, "from 1 to 4", asked.sources = NULL);
	BAD("no source", -EINVAL, "sources: 0", asked.source_count = 0);
	BAD("five sources", -EINVAL, "sources: 5", asked.source_count = 5);
	BAD("no size of a source", -EINVAL, "sources[0].size: 0", given[0].size = 0);
	BAD("two sizes", -EINVAL, "sources[1].size", asked.source_count = 2, given[1].size = 8);
	BAD("no kind", -EINVAL, "sources[0].kind: 0", given[0].kind = (enum wm_kevent_kind)0);
	BAD("no such kind", -EINVAL, "sources[0].kind: 4", given[0].kind = (enum wm_kevent_kind)4);
	BAD("three bytes", -EINVAL, "of 3 bytes", given[0].bytes = 3);
	BAD("code of eight bytes", -EINVAL, "of 8 bytes", given[0].kind = WM_KEVENT_KIND_EXECUTE);
	BAD("address 0", -EINVAL, "the address is 0", given[0].address = 0);
	BAD("code at 0", -EINVAL, "the address is 0", given[0].address = 0, given[0].bytes = 0,
	    given[0].kind = WM_KEVENT_KIND_EXECUTE);
	BAD("askew", -EINVAL, "no multiple of its 8 bytes", given[0].address += 4);
	BAD("the kernel's", -EINVAL, "is the kernel's",
	    given[0].address = UINT64_C(0xffffffff81000000));
	BAD("data that is ours", -EINVAL, "low 16 bits", asked.flags = WM_KEVENT_FLAG_SIGNAL,
	    given[0].data = 1);
	answers("no place", wm_kevent_open(NULL, &asked), -EINVAL, "");
	answers("no request", wm_kevent_open(&object, NULL), -EINVAL, "");

	/* as a program that was made for a later release */
	larger.request = asked;
	larger.request.size = sizeof(larger);
	larger.more = 0;
	answers("a later release's", wm_kevent_open(&object, &larger.request), 0,
		wm_kevent_detail(NULL));
	wm_kevent_close(object);
	larger.more = 1;
	answers("a later release's, with more", wm_kevent_open(&object, &larger.request), -E2BIG,
		"");
}

static void bad_calls(void)
{
	struct wm_kevent_status now = { .size = 4 };
	struct wm_kevent_coverage covered = { .size = sizeof(covered) };
	struct wm_kevent_gap gap = { .size = 0 };
	struct wm_kevent *object;
	uint64_t hits;

	answers("open", wm_kevent_open(&object, &asked), 0, wm_kevent_detail(NULL));
	answers("no object", wm_kevent_arm(NULL), -EINVAL, "");
	answers("a status without a size", wm_kevent_status_get(object, &now), -EINVAL, "");
	answers("no status", wm_kevent_status_get(object, NULL), -EINVAL, "");
	answers("no such source", wm_kevent_count(object, 1, &hits), -EINVAL, "");
	answers("no hits", wm_kevent_count(object, 0, NULL), -EINVAL, "");
	answers("room for none", wm_kevent_coverage(object, &covered, NULL, 1), -EINVAL, "");
	answers("no coverage", wm_kevent_coverage(object, NULL, NULL, 0), -EINVAL, "");
	answers("followed unarmed", wm_kevent_rescan(object), -EINVAL, "");
	answers("no object's times", wm_kevent_uncovered(NULL, NULL, 0), -EINVAL, "");
	answers("no room for times", wm_kevent_uncovered(object, NULL, 1), -EINVAL, "");
	answers("no times", wm_kevent_uncovered(object, NULL, 0), 0, "");
	answers("drained unarmed", wm_kevent_read(object, take_none, NULL), -EINVAL, "");
	answers("drained without a reader", wm_kevent_read(object, NULL, NULL), -EINVAL, "");
	answers("modified unarmed", wm_kevent_modify(object, &asked, NULL), -EINVAL, "");
	answers("a gap without a size", wm_kevent_modify(object, &asked, &gap), -EINVAL, "");
	answers("modified to nothing", wm_kevent_modify(object, NULL, NULL), -EINVAL, "");
	wm_kevent_close(object);
	asked.pid = 0x3fffffff;
	answers("open", wm_kevent_open(&object, &asked), 0, wm_kevent_detail(NULL));
	answers("no such process", wm_kevent_arm(object), -WM_E_GONE, wm_kevent_detail(object));
	wm_kevent_close(object);
	wm_kevent_close(NULL);
}

int main(void)
{
	bad_inputs();
	bad_calls();
	return failures != 0;
}
