/* SPDX-License-Identifier: MIT */
#include "agent/detour/trial.h"

#include "agent/detour/stop.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What is stored of a chain, and in which order. */

#define PAGE_BYTES 4096u
#define MEMBERS 4
#define LINK_AT 16
#define NOWHERE 64 /* an address where nothing is */

/* A chain of which nobody knows, in pages of its own. */
static struct stored {
	struct control_detour records[MEMBERS];
	struct detour members[MEMBERS];
	uint8_t *text, *code;
	uint16_t *semaphore;
} stored;

static uint8_t *page(void)
{
	void *got = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);

	cr_assert_neq(got, MAP_FAILED);
	return got;
}

static void stored_begin(void)
{
	stored.text = page();
	stored.code = page();
	stored.semaphore = (uint16_t *)(void *)page();
	memset(stored.text, 0x90, PAGE_BYTES);
	for (uint8_t i = 0; i < MEMBERS; i++) {
		struct detour *member = &stored.members[i];

		*member = (struct detour){
			.head = stored.members,
			.next_member = i + 1 < MEMBERS ? member + 1 : NULL,
			.record = &stored.records[i],
			.code = (uintptr_t)stored.code + 64u * i,
			.jump = { 0xe9, i },
			.jump_bytes = DETOUR_JUMP_BYTES,
			.prot = PROT_READ | PROT_WRITE,
		};
		stored.records[i] = (struct control_detour){
			.tier = TIER_SEVERAL,
			.address = (uintptr_t)stored.text,
			.span_bytes = DETOUR_JUMP_BYTES,
			.link_at = LINK_AT,
		};
		memset(stored.records[i].original, 0x90, sizeof stored.records[i].original);
	}
	/* the head is not wanted, nor is the last */
	stored.members[1].in_batch = stored.members[2].in_batch = 1;
}

/* What the janitor does with it when all threads are stopped. */
static int store(void)
{
	static struct stop_job job;
	struct janitor_site site = { .detour = stored.members };

	job = (struct stop_job){
		.self = getpid(), .memory_fd = -1, .arm = 1, .sites = &site, .count = 1
	};
	spans_store(&job);
	cr_assert_eq(site.is_done, !site.error);
	return site.error;
}

static int is_linked(int member)
{
	const uint8_t *link = stored.code + 64 * (member - 1) + LINK_AT;
	int is = link[0] == 0xe9;
	int32_t far;

	cr_assert_eq(is, stored.members[member].is_linked);
	memcpy(&far, link + 1, sizeof far);
	/* it leads where the member was when it was stored */
	cr_assert(!is ||
		  far == (int32_t)((uintptr_t)stored.code + 64u * (unsigned int)member -
				   (uintptr_t)link - DETOUR_JUMP_BYTES) ||
		  far == (int32_t)(NOWHERE - (uintptr_t)link - DETOUR_JUMP_BYTES));
	return is;
}

Test(chain_store, no_jump_stands_before_all_links_do)
{
	uintptr_t code;

	stored_begin();
	code = stored.members[1].code;
	stored.members[1].code = NOWHERE;
	cr_assert_eq(store(), -EFAULT);
	cr_assert_eq(stored.text[0], 0x90);
	cr_assert(is_linked(1));
	cr_assert_not(is_linked(2), "it could not be stored");
	stored.members[1].code = code;
	cr_assert_eq(store(), 0);
	cr_assert_arr_eq(stored.text, stored.members[0].jump, DETOUR_JUMP_BYTES);
	cr_assert(is_linked(1) && is_linked(2));
	cr_assert_not(is_linked(3), "nobody wants it");
}

Test(chain_store, a_link_that_stands_stays)
{
	stored_begin();
	cr_assert_eq(store(), 0);
	memset(stored.text, 0x90, DETOUR_JUMP_BYTES);
	stored.members[0].code = NOWHERE; /* what leads to the first of them is not stored again */
	stored.members[3].in_batch = 1;
	cr_assert_eq(store(), 0);
	cr_assert(is_linked(3));
	cr_assert_eq(stored.text[0], 0xe9);
}

Test(chain_store, no_link_nor_jump_stands_before_its_semaphore_is_up)
{
	stored_begin();
	stored.records[1].semaphore = (uintptr_t)stored.semaphore;
	stored.records[2].semaphore = NOWHERE;
	stored.records[3].semaphore = (uintptr_t)(stored.semaphore + 1);
	cr_assert_eq(store(), -EFAULT);
	cr_assert_eq(stored.text[0], 0x90);
	cr_assert_not(is_linked(1));
	cr_assert_eq(stored.semaphore[0], 1);
	stored.records[2].semaphore = 0;
	cr_assert_eq(store(), 0);
	cr_assert_eq(stored.semaphore[0], 1, "once");
	cr_assert_eq(stored.semaphore[1], 0, "nobody wants it");
}

Test(chain_store, no_jump_stands_before_its_relay)
{
	stored_begin();
	stored.members[0].relay = NOWHERE;
	cr_assert_eq(store(), -EFAULT);
	cr_assert_eq(stored.text[0], 0x90);
	stored.members[0].relay = (uintptr_t)stored.text + 32;
	stored.text[33] = 1;
	cr_assert_eq(store(), -WM_E_SITE_CHANGED);
	cr_assert_eq(stored.text[0], 0x90);
	stored.text[33] = 0x90;
	memset(stored.members[0].relay_jump, 0x42, DETOUR_RELAY_BYTES);
	cr_assert_eq(store(), 0);
	cr_assert_eq(stored.text[32], 0x42);
	cr_assert_eq(stored.text[0], 0xe9);
}

Test(chain_store, a_link_leads_to_where_the_next_event_begins)
{
	int32_t distance;

	stored_begin();
	stored.records[1].event_at = 8;
	cr_assert_eq(store(), 0);
	cr_assert_eq(stored.code[LINK_AT], 0xe9);
	memcpy(&distance, stored.code + LINK_AT + 1, sizeof distance);
	cr_assert_eq(distance, 64 + 8 - LINK_AT - DETOUR_JUMP_BYTES, "from the first one's link");
}

Test(chain_store, a_member_is_within_reach_of_every_other)
{
	struct control_detour record = { .event_at = 8 };
	struct detour another = { .record = &record };

	stored_begin();
	another.code = stored.members[MEMBERS - 1].code + 256;
	cr_assert_eq(chain_join(stored.members, &another), 0);
	cr_assert_eq(another.head, stored.members);
	another.code += UINT64_C(4) << 30;
	cr_assert_eq(chain_join(stored.members, &another), -WM_E_DETOUR_REACH);
}
