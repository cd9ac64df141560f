/* SPDX-License-Identifier: MIT */
/* Where the engine's own memory is. */
#include "abi/engine.h"
#include "inside/engine/engine_memory.h"

#include <criterion/criterion.h>
#include <sys/mman.h>

#define PAGE 4096

Test(engine_memory, what_lies_in_its_way_is_avoided)
{
	for (int is_far = 0; is_far < 2; is_far++) {
		uint64_t at, next;

		memory_open(is_far);
		at = (uint64_t)memory_map(0, PAGE, PROT_READ | PROT_WRITE);
		cr_assert(engine_may_be_at(at));
		cr_assert_neq(mmap((void *)(at + PAGE), PAGE, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			      MAP_FAILED);
		next = (uint64_t)memory_map(0, PAGE, PROT_READ | PROT_WRITE);
		cr_expect(engine_may_be_at(next), "0x%lx", next);
		cr_expect_neq(next, at + PAGE);
	}
}
