/* SPDX-License-Identifier: MIT */
/* The control side from a tool's end (tool.h). */
#include "inside/control/testing/tool.h"

#include "abi/handler.h"
#include "abi/predicate.h"
#include "abi/watch.h"
#include "base/testing/await.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(control, .init = tool_begin, .fini = tool_end, .timeout = 60);

static int count_threads(void)
{
	struct stat found;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task", tool.pid);
	return stat(path, &found) ? 0 : (int)found.st_nlink - 2;
}

static void await_threads(int count, const char *which)
{
	cr_assert(AWAIT(count_threads() == count), "%d threads, and not %s", count_threads(),
		  which);
}

/* Let the program's two workers pass their markers some times. Each sleeps after every time. */
static void let_work(void)
{
	uint64_t before = tool_sleeps();

	cr_assert(AWAIT(tool_sleeps() >= before + 200));
}

/* The four messages that most tests begin with. */
static struct peer begin(const char *mode, const char *more, const char *glob)
{
	struct peer peer;

	tool_launch(mode, more);
	peer = tool_meet();
	cr_assert_eq(peer_open(&peer, tool.path).error, 0);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, glob, 0).error, 0);
	cr_assert_eq(peer_request(&peer, CONTROL_GO, NULL, 0).error, 0);
	return peer;
}

Test(control, a_launched_program_waits_for_go_with_its_markers_armed)
{
	struct peer peer;

	tool_launch("count", "100");
	peer = tool_meet();
	cr_assert_eq(peer.hello.pid, (uint32_t)tool.pid);
	cr_assert(peer.hello.launched && !peer.hello.forked);
	cr_assert_eq(peer_open(&peer, "").error, 0);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "count:*", 0).markers, 2);
	cr_assert_eq(peer.events, 2);
	cr_assert_eq(peer_recorded(&peer), 0, "it did not wait");
	cr_assert_eq(peer_request(&peer, CONTROL_GO, NULL, 0).error, 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_eq(peer_recorded(&peer), 101, "100 and the one of the constructor");
}

Test(control, a_program_goes_on_when_no_tool_answers)
{
	close(tool.listening);
	unlink(tool.path);
	tool_launch("count", "1");
	cr_assert_eq(tool_exit_status(), 0);
}

Test(control, disarms_and_is_quiet_and_leaves_no_thread)
{
	struct peer peer = begin("work", "", "work:*");
	struct control_done done;
	uint64_t before;

	cr_assert(AWAIT(peer_recorded(&peer) > 0));
	done = peer_request(&peer, CONTROL_QUIET, NULL, 0);
	cr_assert_eq(done.error, 0);
	cr_assert_gt(done.sites, 0);
	before = peer_recorded(&peer);
	let_work();
	cr_assert_eq(peer_recorded(&peer), before);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
	cr_assert(AWAIT(peer_recorded(&peer) > before));
	cr_assert_eq(peer_request(&peer, CONTROL_LEAVE, NULL, 0).error, 0);
	await_threads(3, "the main thread and two workers");
}

static struct peer begin_fault(const char *after)
{
	struct peer peer = begin("fault", after, "work:*");
	char there[6];

	cr_assert_eq(read(tool.out, there, sizeof there), (ssize_t)sizeof there);
	return peer;
}

static void is_quiet_after(const char *after)
{
	struct peer peer = begin_fault(after);

	cr_assert_eq(peer_request(&peer, CONTROL_QUIET, NULL, 0).error, 0);
	cr_assert_eq(peer_recorded(&peer), 0);
	/* and once more, since nothing of it is left */
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
	cr_assert_eq(peer_request(&peer, CONTROL_LEAVE, NULL, 0).error, 0);
	await_threads(1, "the main thread alone");
}

Test(control, a_hit_that_was_left_by_a_jump_is_over)
{
	is_quiet_after("back");
}

Test(control, a_hit_that_was_left_by_a_jump_from_far_down_is_over)
{
	is_quiet_after("far");
}

Test(control, a_hit_that_was_left_by_a_jump_is_over_though_the_stack_was_used_again)
{
	is_quiet_after("deeper");
}

/* Nobody waits for it for long; where it writes to stays. */
Test(control, a_hit_goes_on_whose_handler_stands_on_another_stack)
{
	struct peer peer = begin_fault("wait");

	cr_assert_eq(peer_request(&peer, CONTROL_LEAVE, NULL, 0).error, 0);
	close(peer.fd);
	await_threads(1, "the main thread alone");
	cr_assert_eq(peer_recorded(&peer), 1, "the handler's own");
	kill(tool.pid, SIGUSR1);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_eq(peer_recorded(&peer), 2);
}

Test(control, disarms_when_the_tool_dies)
{
	struct peer peer = begin("work", "", "work:*");
	uint64_t before;

	/* else the main thread and the agent's two might be taken for what is left */
	await_threads(5, "the program's three and the agent's two");
	close(peer.fd);
	await_threads(3, "the main thread and two workers");
	before = peer_recorded(&peer);
	let_work();
	cr_assert_eq(peer_recorded(&peer), before);
}

Test(control, two_globs_are_independent_and_the_last_prevails)
{
	struct peer peer = begin("work", "", "work:*");

	cr_assert_eq(peer_rules(&peer, CONTROL_DISARM, "work:one", 0).markers, 1);
	cr_assert_eq(peer_rules(&peer, CONTROL_DISARM, "work:one", 0).markers, 0);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:on?", 0).sites, 1);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "nothing", 0).error, -WM_E_SPEC);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "no:thing", 0).markers, 0);
}

Test(control, strict_requests_are_served_when_nothing_is_in_the_way)
{
	struct peer peer = begin("work", "", "no:thing");
	struct control_done done = peer_rules(&peer, CONTROL_ARM, "work:*", 1);

	cr_assert_eq(done.error, 0);
	cr_assert_gt(done.sites, 0);
}

Test(control, a_module_that_comes_later_is_armed_before_its_constructors)
{
	const char *module = getenv("WAYMARK_TEST_MODULE");
	struct peer peer;

	if (!module)
		cr_skip_test("WAYMARK_TEST_MODULE is not set");
	peer = begin("load", module, "module:*");
	cr_assert_eq(tool_exit_status(), 0);
	while (peer_read_until(&peer, 0, NULL) != -EPIPE)
		;
	/* 50 times: its constructor, and one call */
	cr_assert_eq(peer_recorded(&peer), 100);
	cr_assert_eq(peer.events, 2, "one id for each marker, however often it comes");
	cr_assert_eq(peer.gone, 50);
	cr_assert_eq(peer.refused, 0);
}

/* Its ten events of work:child, which is armed, and its end. */
static void child_runs_to_its_end(struct peer *child)
{
	peer_request(child, CONTROL_GO, NULL, 0);
	while (peer_read_until(child, 0, NULL) != -EPIPE)
		;
	cr_assert_eq(peer_recorded(child), 10);
	close(child->fd);
	close(child->memfd);
}

Test(control, a_forked_child_is_recorded_from_its_first_instruction)
{
	struct peer parent = begin("fork", "", "work:*");

	for (int i = 0; i < 5; i++) {
		struct peer child = tool_meet();

		cr_assert(child.hello.forked);
		cr_assert_eq(child.hello.ppid, parent.hello.pid);
		cr_assert_eq(peer_open(&child, "").error, 0);
		cr_assert_eq(peer_rules(&child, CONTROL_ARM, "work:child", 0).error, 0);
		child_runs_to_its_end(&child);
	}
	cr_assert_eq(tool_exit_status(), 0);
}

Test(control, a_child_says_what_its_parent_had_and_may_have_it)
{
	static const struct control_commit commit = { .set = 7 };
	struct control_adopt other = { .set = 8, .as = 9 }, same = { .set = 7, .as = 9 };
	struct peer parent;

	tool_launch("fork", "");
	parent = tool_meet();
	cr_assert_not(parent.hello.inherits);
	cr_assert_eq(peer_open(&parent, tool.path).error, 0);
	cr_assert_eq(peer_rules(&parent, CONTROL_ARM, "work:*", 0).error, 0);
	cr_assert_eq(peer_request(&parent, CONTROL_COMMIT, &commit, sizeof commit).error, 0);
	cr_assert_gt(parent.events, 1);
	peer_request(&parent, CONTROL_GO, NULL, 0);
	for (int i = 0; i < 5; i++) {
		struct peer child = tool_meet();

		cr_assert(child.hello.inherits);
		cr_assert_eq(child.inherited.set, commit.set);
		cr_assert_eq(child.inherited.ids, parent.events);
		cr_assert_eq(peer_request(&child, CONTROL_ADOPT, &same, sizeof same).error, -EINVAL,
			     "it has no store");
		cr_assert_eq(peer_open(&child, "").error, 0);
		cr_assert_eq(peer_request(&child, CONTROL_ADOPT, &other, sizeof other).error,
			     -ENOENT);
		cr_assert_eq(peer_request(&child, CONTROL_ADOPT, &same, sizeof same).error, 0);
		cr_assert_eq(peer_request(&child, CONTROL_ADOPT, &same, sizeof same).error, -ENOENT,
			     "it was taken");
		cr_assert_eq(peer_rules(&child, CONTROL_ARM, "work:child", 0).error, 0);
		cr_assert_eq(child.last_id, child.inherited.ids, "its own ids follow its parent's");
		child_runs_to_its_end(&child);
	}
	cr_assert_eq(tool_exit_status(), 0);
}

Test(control, what_was_buffered_is_printed_when_main_has_left_by_pthread_exit)
{
	struct peer peer = begin("leave", "", "work:*");
	char text[64] = "";
	int status = tool_exit_status();

	(void)peer;
	cr_assert_eq(status, 0);
	cr_assert_gt(read(tool.out, text, sizeof text - 1), 0);
	cr_assert_str_eq(text, "said by the last thread\n");
}

Test(control, other_types_under_one_name_are_refused_with_both_places)
{
	struct peer peer = begin("work", "", "no:thing");
	struct control_done done = peer_rules(&peer, CONTROL_ARM, "clash:types", 0);

	cr_assert_eq(done.error, 0);
	cr_assert_eq(done.markers, 0);
	cr_assert_eq(done.sites, 0);
	cr_assert_gt(peer.refused, 0);
	cr_assert_eq(peer.refusal.error, -WM_E_FIELD_TYPES);
	cr_assert_eq(peer.refusal.address, 0);
	cr_assert(strstr(peer.last_refused, "clash\ntypes\n"));
	cr_assert(strstr(peer.last_refused + strlen(peer.last_refused) + 1, "clash\ntypes\n"));
}

/* Whether the agent has read all that was sent. */
static int is_taken(const struct peer *peer)
{
	int bytes = 1;

	cr_assert_eq(ioctl(peer->fd, SIOCOUTQ, &bytes), 0);
	return !bytes;
}

Test(control, hostile_messages_end_the_session_and_nothing_else)
{
	uint64_t seed = 88172645463325252u;
	struct peer peer = begin("work", "", "work:*");

	for (int round = 0; round < 300; round++) {
		static union {
			struct wm_message head;
			unsigned char bytes[4096];
		} noise;
		size_t bytes;

		for (size_t i = 0; i < sizeof noise.bytes; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			noise.bytes[i] = (unsigned char)(seed >> 32);
		}
		bytes = seed % 200;
		if (round % 4) { /* a good head, so that the body is looked at */
			noise.head = (struct wm_message){ CONTROL_MAGIC, CONTROL_VERSION,
							  (uint16_t)(32 + round % 8), 0, 0 };
			bytes += sizeof noise.head;
			noise.head.bytes = (uint32_t)(bytes - sizeof noise.head);
			if (noise.head.type == CONTROL_LEAVE)
				continue;
		}
		if (send(peer.fd, noise.bytes, bytes, MSG_NOSIGNAL) < 0)
			break;
		cr_assert(AWAIT(is_taken(&peer)));
	}
	close(peer.fd);
	await_threads(3, "the main thread and two workers");
	cr_assert_eq(kill(tool.pid, 0), 0);
}

Test(control, hostile_predicates_are_refused)
{
	static const struct predicate number = {
		.name = "number", .number = 1, .by = WATCH_BY_EQUAL, .forms = PREDICATE_INTEGER
	};
	struct __attribute__((packed)) {
		struct control_predicates head;
		struct predicate predicate;
		char glob[sizeof("work:*")];
	} body, good = { .head.count = 1, .predicate = number, .glob = "work:*" };
	struct peer peer = begin("work", "", "no:thing");

	for (size_t bytes = 0; bytes < sizeof body; bytes++)
		cr_assert_eq(peer_request(&peer, CONTROL_PREDICATES, &good, bytes).error,
			     -WM_E_PROTOCOL, "%zu bytes", bytes);
#define BAD(error_is, change)                                                                      \
	do {                                                                                       \
		body = good;                                                                       \
		change;                                                                            \
		cr_assert_eq(peer_request(&peer, CONTROL_PREDICATES, &body, sizeof body).error,    \
			     error_is, #change);                                                   \
		cr_assert_not(peer.is_gone, #change);                                              \
	} while (0)
	BAD(-WM_E_PROTOCOL, body.head.count = 2);
	BAD(-WM_E_PROTOCOL, body.head.count = PREDICATES_MAX + 1);
	BAD(-WM_E_PROTOCOL, body.head.count = UINT32_MAX);
	BAD(-WM_E_PROTOCOL, body.predicate.name[0] = 0);
	BAD(-WM_E_PROTOCOL, memset(body.predicate.name, 'a', PREDICATE_NAME_BYTES));
	BAD(-WM_E_PROTOCOL, memset(body.predicate.text, 'a', PREDICATE_TEXT_BYTES));
	BAD(-WM_E_PROTOCOL, body.predicate.by = 0);
	BAD(-WM_E_PROTOCOL, body.predicate.by = 255);
	BAD(-WM_E_PROTOCOL, body.predicate.forms = 0);
	BAD(-WM_E_PROTOCOL, body.predicate.forms = 255);
	BAD(-WM_E_PROTOCOL, memset(body.glob, '*', sizeof body.glob));
	BAD(-WM_E_SPEC, strcpy(body.glob, "nocol."));
	BAD(0, (void)0);
#undef BAD
	/* its markers lack that field and are refused; the program continues */
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
	let_work();
}

Test(control, a_tool_that_reads_nothing_is_given_up)
{
	struct peer peer = begin("work", "", "work:*");
	struct wm_message list = { CONTROL_MAGIC, CONTROL_VERSION, CONTROL_LIST, 99, 0 };

	await_threads(5, "the program's three and the agent's two");
	while (send(peer.fd, &list, sizeof list, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	await_threads(3, "the main thread and two workers");
}

Test(control, a_program_that_closes_every_descriptor_loses_none_of_ours)
{
	struct peer peer = begin("close", "", "work:*");
	uint64_t before;
	char byte;

	cr_assert_eq(read(tool.out, &byte, 1), 0, "it has closed its end");
	before = peer_recorded(&peer);
	cr_assert(AWAIT(peer_recorded(&peer) > before));
	cr_assert_eq(peer_request(&peer, CONTROL_QUIET, NULL, 0).error, 0);
}

/* The tool that launched it leaves; the agent stays, for the program asks it to listen. */
static void begin_listening(void)
{
	struct peer parent;

	unsetenv("XDG_RUNTIME_DIR");
	parent = begin("listen", "", "no:thing");
	peer_request(&parent, CONTROL_LEAVE, NULL, 0);
}

static struct peer begin_session(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct peer peer = { .memfd = -1, .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) };

	snprintf(address.sun_path, sizeof address.sun_path, "/tmp/waymark-%d/%d.agent", geteuid(),
		 tool.pid);
	cr_assert(AWAIT(!connect(peer.fd, (struct sockaddr *)&address, sizeof address)), "%s: %s",
		  address.sun_path, strerror(errno));
	cr_assert_eq(peer_read_until(&peer, 0, NULL), CONTROL_HELLO);
	cr_assert_eq(peer_open(&peer, "").error, 0);
	return peer;
}

Test(control, the_program_listens_when_it_asks_and_takes_tools_one_after_another)
{
	begin_listening();
	for (int i = 0; i < 3; i++) {
		struct peer peer = begin_session();

		cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
		cr_assert(AWAIT(peer_recorded(&peer) > 0));
		if (i % 2)
			peer_request(&peer, CONTROL_LEAVE, NULL, 0);
		close(peer.fd);
	}
}

/* ---- handlers from outside ---- */

/* Send the module's file; it is whole in one piece. */
static void send_file(struct peer *peer, uint64_t key)
{
	static struct {
		struct control_handler_file head;
		char bytes[CONTROL_BYTES_MAX - 1024];
	} piece;
	int fd = open(getenv("WAYMARK_TEST_MODULE"), O_RDONLY);
	ssize_t got = read(fd, piece.bytes, sizeof piece.bytes);

	close(fd);
	cr_assert(got > 0 && got < (ssize_t)sizeof piece.bytes);
	piece.head = (struct control_handler_file){ .key = key };
	cr_assert_eq(peer_request(peer, CONTROL_HANDLER_FILE, &piece,
				  sizeof piece.head + (size_t)got)
			     .error,
		     0);
}

/* Begin to record work:* under the module's handler. */
static struct peer begin_handled(void)
{
	struct {
		struct control_handlers head;
		struct control_handler one;
	} body = { { .key = 1, .count = 1 },
		   { .types = { WM_TYPE_U32 }, .kind = 'm', .name = "work:one" } };
	void *module = dlopen(getenv("WAYMARK_TEST_MODULE"), RTLD_NOW);
	const uint64_t *handler = module ? dlsym(module, "module_handler") : NULL;
	struct link_map *map;
	struct peer peer;

	cr_assert(handler && !dlinfo(module, RTLD_DI_LINKMAP, &map));
	body.one.at = *handler - map->l_addr;
	tool_launch("work", "");
	peer = tool_meet();
	cr_assert_eq(peer_open(&peer, tool.path).error, 0);
	send_file(&peer, 1);
	cr_assert_eq(peer_request(&peer, CONTROL_HANDLERS, &body, sizeof body).error, 0);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
	cr_assert_eq(peer_request(&peer, CONTROL_GO, NULL, 0).error, 0);
	cr_assert(AWAIT(peer_recorded(&peer) > 2));
	return peer;
}

static int has_mapped_handlers(void)
{
	char path[64], line[512];
	int found = 0;
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)tool.pid);
	maps = fopen(path, "r");
	while (maps && fgets(line, sizeof line, maps))
		found |= strstr(line, "waymark-handlers") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* As after a QUIET that failed. */
Test(control, handlers_that_armed_markers_call_are_disarmed_before_they_are_unloaded)
{
	struct peer peer = begin_handled();

	cr_assert(has_mapped_handlers());
	cr_assert_eq(peer_request(&peer, CONTROL_UNLOAD, NULL, 0).error, 0);
	cr_assert_not(has_mapped_handlers());
	let_work();
}

Test(control, nothing_is_armed_while_handlers_are_being_unloaded)
{
	struct control_done done = { .error = 1 };
	struct {
		struct control_rules head;
		char glob[8];
	} arm = { { .count = 1 }, "work:*" };
	struct peer peer = begin_handled();

	peer_request(&peer, CONTROL_QUIET, NULL, 0);
	peer_say(&peer, CONTROL_UNLOAD, NULL, 0);
	peer_say(&peer, CONTROL_ARM, &arm, sizeof arm.head + strlen(arm.glob) + 1);
	cr_assert_eq(peer_read_until(&peer, peer.serial - 1, &done), CONTROL_DONE);
	cr_assert_eq(done.error, 0, "%d", done.error);
	cr_assert_eq(peer_read_until(&peer, peer.serial, &done), CONTROL_DONE);
	cr_assert_eq(done.error, 0, "%d", done.error);
	cr_assert_not(has_mapped_handlers());
	let_work();
}

Test(control, a_file_of_handlers_goes_with_the_session_that_did_not_load_it)
{
	begin_listening();
	/* more than an agent has at once */
	for (uint64_t key = 1; key <= 20; key++) {
		struct peer peer = begin_session();

		send_file(&peer, key);
		peer_request(&peer, CONTROL_LEAVE, NULL, 0);
		close(peer.fd);
	}
}
