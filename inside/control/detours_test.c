/* SPDX-License-Identifier: MIT */
/*
 * PLACE messages over the socket, whole and damaged in every way: nothing but a refusal comes of
 * those.
 */
#include "inside/control/testing/tool.h"

#include "abi/detour.h"
#include "base/testing/await.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSN_BYTES 3
#define TEXT "md\ntest\ndiverted\n?\n0\n"

TestSuite(detours, .init = tool_begin, .fini = tool_end, .timeout = 60);

/* One detour whose event has no code: a link, the moved instruction, a jump back. */
struct place {
	struct control_place head;
	struct control_detour detour;
	uint8_t code[16];
	struct detour_fixup fixup;
	char text[24];
};

static uint64_t function;

static struct place compose(void)
{
	static const uint8_t original[] = { 0x48, 0x89, 0xf8, 0x48, 0x83, 0xc0, 0x01 };
	static const uint8_t link[] = DETOUR_LINK;
	struct place place = {
		.head = { .count = 1 },
		.detour = { .bytes = sizeof place - sizeof place.head,
			    .code_bytes = 16,
			    .fixup_count = 1,
			    .link_at = 1,
			    .moved_at = 1 + sizeof link,
			    .insn_bytes = INSN_BYTES,
			    .kept_bytes = sizeof original - INSN_BYTES,
			    .starts = 1,
			    .address = function,
			    .point = function },
		.text = TEXT,
	};

	memcpy(place.detour.original, original, sizeof original);
	place.code[0] = 0x90;
	memcpy(place.code + place.detour.link_at, link, sizeof link);
	memcpy(place.code + place.detour.moved_at, original, INSN_BYTES);
	place.code[11] = 0xe9;
	place.fixup = (struct detour_fixup){ .offset = 12,
					     .kind = FIXUP_REL32,
					     .target = function + INSN_BYTES };
	return place;
}

static struct peer begin(void)
{
	struct peer peer;
	char line[64] = "";

	tool_launch("divert", "");
	peer = tool_meet();
	cr_assert_eq(peer_open(&peer, tool.path).error, 0);
	cr_assert_eq(peer_request(&peer, CONTROL_GO, NULL, 0).error, 0);
	cr_assert_gt(read(tool.out, line, sizeof line - 1), 0);
	function = strtoull(line, NULL, 16);
	cr_assert_neq(function, 0);
	return peer;
}

static int first_byte(void)
{
	char path[64];
	uint8_t byte = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/mem", (int)tool.pid);
	fd = open(path, O_RDONLY);
	cr_assert_eq(pread(fd, &byte, 1, (off_t)function), 1);
	close(fd);
	return byte;
}

/* Let the program call the function. It sleeps after each thousand calls. */
static void let_call(void)
{
	uint64_t before = tool_sleeps();

	cr_assert(AWAIT(tool_sleeps() >= before + 10));
}

static void goes_on(struct peer *peer)
{
	cr_assert_not(peer->is_gone);
	cr_assert_eq(kill(tool.pid, 0), 0);
	cr_assert_eq(peer_request(peer, CONTROL_LIST, NULL, 0).error, 0);
}

Test(detours, a_whole_one_is_armed_and_let_go)
{
	struct peer peer = begin();
	struct place place = compose();
	struct control_done done = peer_request(&peer, CONTROL_PLACE, &place, sizeof place);

	cr_assert_eq(done.error, 0);
	cr_assert_eq(done.refused, 0, "%d", peer.refusal.error);
	cr_assert_eq(first_byte(), 0x48);
	done = peer_request(&peer, CONTROL_COMMIT, NULL, 0);
	cr_assert_eq(done.error, 0);
	cr_assert_eq(done.markers, 1);
	cr_assert_eq(first_byte(), 0xe9);
	let_call();
	cr_assert_eq(peer_request(&peer, CONTROL_QUIET, NULL, 0).error, 0);
	cr_assert_eq(first_byte(), 0x48);
	goes_on(&peer);
}

/*
 * Each byte of the record, changed in several ways. What the agent accepts nevertheless is never
 * armed.
 */
Test(detours, no_damaged_byte_does_harm)
{
	static const uint8_t changes[] = { 0x01, 0x80, 0xff };
	struct peer peer = begin();
	const struct place good = compose();
	unsigned int refused = 0, taken = 0;
	struct control_done done;

	for (size_t at = 0; at < sizeof good * 3; at++) {
		struct place bad = good;

		((uint8_t *)&bad)[at / 3] ^= changes[at % 3];
		done = peer_request(&peer, CONTROL_PLACE, &bad, sizeof bad);
		cr_assert_not(peer.is_gone, "byte %zu", at / 3);
		if (done.error || done.refused)
			refused++;
		else
			taken++;
		cr_assert(!done.error || done.error == -WM_E_PROTOCOL, "byte %zu: %d", at / 3,
			  done.error);
	}
	cr_log_info("%u refused, %u taken", refused, taken);
	cr_assert_gt(refused, 300);
	cr_assert_eq(peer_request(&peer, CONTROL_QUIET, NULL, 0).error, 0);
	cr_assert_eq(first_byte(), 0x48);
	goes_on(&peer);
	/* and who comes then finds all in order */
	done = peer_request(&peer, CONTROL_PLACE, &good, sizeof good);
	cr_assert_eq(done.error, 0);
	cr_assert_eq(peer_request(&peer, CONTROL_COMMIT, NULL, 0).error, 0);
	let_call();
	goes_on(&peer);
}

/* Fields that are checked, each with the answer that it must have. */
Test(detours, broken_fields_are_refused_by_name)
{
	struct peer peer = begin();
	const struct place good = compose();

#define BROKEN(cause, change)                                                                      \
	do {                                                                                       \
		struct place bad = good;                                                           \
		struct control_done done;                                                          \
                                                                                                   \
		change;                                                                            \
		peer.refusal.error = 0;                                                            \
		done = peer_request(&peer, CONTROL_PLACE, &bad, sizeof bad);                       \
		cr_assert_eq(done.error ? done.error : peer.refusal.error, cause,                  \
			     #change ": %d, %d", done.error, peer.refusal.error);                  \
		cr_assert_not(peer.is_gone);                                                       \
	} while (0)

	BROKEN(-WM_E_PROTOCOL, bad.head.count = 0);
	BROKEN(-WM_E_PROTOCOL, bad.head.count = UINT32_MAX);
	BROKEN(-WM_E_PROTOCOL, bad.detour.bytes = 0);
	BROKEN(-WM_E_PROTOCOL, bad.detour.bytes += 8);
	BROKEN(-WM_E_PROTOCOL, bad.detour.bytes -= 8);
	BROKEN(-WM_E_PROTOCOL, bad.detour.bytes = UINT32_MAX - 7);
	BROKEN(-WM_E_PROTOCOL, bad.detour.code_bytes = UINT16_MAX);
	BROKEN(-WM_E_PROTOCOL, bad.detour.fixup_count = UINT16_MAX);
	BROKEN(-WM_E_PROTOCOL, bad.detour.insn_bytes = 0);
	BROKEN(-WM_E_PROTOCOL, bad.detour.insn_bytes = DETOUR_INSN_MAX + 1);
	BROKEN(-WM_E_PROTOCOL, bad.detour.kept_bytes = DETOUR_KEPT_MAX + 1);
	BROKEN(-WM_E_PROTOCOL, bad.detour.moved_at = 17);
	BROKEN(-WM_E_PROTOCOL, bad.detour.flags = DETOUR_RETURN_PARTS << 1);
	BROKEN(-WM_E_PROTOCOL, bad.detour.flags = DETOUR_SECRETIVE);
	BROKEN(-WM_E_PROTOCOL, bad.detour.flags = DETOUR_GUARD_CALL | DETOUR_GUARD_MASK);
	BROKEN(-WM_E_PROTOCOL, bad.detour.flags = DETOUR_GUARD_ACTION | DETOUR_GUARD_INNER);
	BROKEN(-WM_E_PROTOCOL, bad.detour.address = UINT64_MAX - 2);
	BROKEN(-WM_E_PROTOCOL, bad.detour.point = function + 1);
	BROKEN(-WM_E_PROTOCOL, bad.detour.types[0][3] = 1);
	BROKEN(-WM_E_PROTOCOL, bad.detour.types[0][0] = 0xff);
	BROKEN(-WM_E_PROTOCOL, bad.detour.link_at = 0);
	BROKEN(-WM_E_PROTOCOL, bad.detour.link_at = 2);
	BROKEN(-WM_E_PROTOCOL, bad.detour.link_at = UINT16_MAX);
	BROKEN(-WM_E_PROTOCOL, bad.fixup.kind = 0);
	BROKEN(-WM_E_PROTOCOL, bad.fixup.kind = FIXUP_RETURN_WORD);
	BROKEN(-WM_E_PROTOCOL, bad.fixup.offset = 13);
	BROKEN(-WM_E_PROTOCOL, bad.text[1] = 'x');
	BROKEN(-WM_E_PROTOCOL, memset(bad.text, 'd', sizeof bad.text));
	BROKEN(-WM_E_DETOUR_REACH, bad.fixup.target += UINT64_C(8) << 30);
	BROKEN(-WM_E_SITE_CHANGED, bad.detour.original[4] ^= 1);
	BROKEN(-EFAULT, bad.detour.address = bad.detour.point = 4096);
	BROKEN(-EFAULT, bad.detour.semaphore = function);
	BROKEN(-EFAULT, bad.detour.semaphore = UINT64_MAX);
	peer.last_refused[0] = 0;
	BROKEN(-WM_E_FIELD_TYPES, bad.detour.handler = 1);
	cr_assert(strstr(peer.last_refused, "diverted"), "it is said which");
#undef BROKEN
	cr_assert_eq(peer_request(&peer, CONTROL_COMMIT, NULL, 0).markers, 0,
		     "nothing is prepared");
	cr_assert_eq(first_byte(), 0x48);
	goes_on(&peer);
}

Test(detours, messages_of_any_length_are_refused)
{
	struct peer peer = begin();
	const struct place good = compose();

	for (size_t bytes = 0; bytes < sizeof good; bytes++) {
		struct control_done done = peer_request(&peer, CONTROL_PLACE, &good, bytes);

		cr_assert_not(peer.is_gone, "%zu bytes", bytes);
		cr_assert_eq(done.error, -WM_E_PROTOCOL, "%zu bytes: %d", bytes, done.error);
	}
	cr_assert_eq(peer_request(&peer, CONTROL_COMMIT, NULL, 0).markers, 0);
	goes_on(&peer);
}
