/* SPDX-License-Identifier: MIT */
#include "code/span.h"

#include "code/file.h"
#include "code/pun.h"
#include "code/symbol.h"
#include "code/trampoline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct code_file *file;
static struct code_symbols symbols;
static struct sweep sweep;
static struct span span;

static void open_module(const char *path)
{
	cr_assert_eq(code_file_open(&file, path), 0);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
	cr_assert_eq(sweep_make(&sweep, file, &symbols), 0);
}

static void fixture_open(void)
{
	open_module(SPAN_FIXTURE);
}

static void fixture_close(void)
{
	sweep_release(&sweep);
	code_symbols_release(&symbols);
	code_file_close(file);
}

TestSuite(span, .init = fixture_open, .fini = fixture_close);

static uint64_t address_of(const char *name)
{
	for (size_t i = 0; i < symbols.count; i++)
		if (!strcmp(symbols.all[i].name, name))
			return symbols.all[i].address;
	cr_assert_fail("no %s", name);
	return 0;
}

/* The span at name+offset begins at name+from, has these bytes and this tier. */
static void stands(const char *name, unsigned int offset, unsigned int from, unsigned int bytes,
		   enum detour_tier tier)
{
	uint64_t start = address_of(name);

	cr_assert_eq(span_find(&sweep, start + offset, offset == 0, &span), 0, "%s+%u: %s %s", name,
		     offset, wm_error_text(span.refusal), span.detail);
	cr_assert_eq(span.address, start + from, "%s+%u: begins at +%lu", name, offset,
		     span.address - start);
	cr_assert_eq(span.bytes, bytes, "%s+%u: %u bytes", name, offset, span.bytes);
	cr_assert_eq(span.tier, tier, "%s+%u: tier %u", name, offset, span.tier);
}

static void refused(const char *name, unsigned int offset, int err, const char *detail)
{
	cr_assert_eq(span_find_whole(&sweep, address_of(name) + offset, offset == 0, &span), -err,
		     "%s+%u: %s", name, offset, wm_error_text(span.refusal));
	cr_assert_eq(span.refusal, -err);
	cr_assert_eq(span.tier, TIER_REFUSED);
	cr_assert_str_eq(span.detail, detail);
}

Test(span, tiers_are_told_by_what_is_replaced)
{
	stands("one_wide", 0, 0, 5, TIER_ONE);
	stands("several", 0, 0, 7, TIER_SEVERAL);
	stands("several", 1, 1, 6, TIER_SEVERAL);
	stands("protected", 0, 4, 5, TIER_ONE);
	cr_assert_eq(span.point, address_of("protected") + 4);
	stands("patchable", 0, 4, 5, TIER_FILLER);
	/* who comes by the loop would be told of as one who called */
	refused("protected_loop", 0, WM_E_SPAN_TARGET, "at +0");
}

Test(span, begins_before_the_point_where_something_lands_behind_it)
{
	stands("probed_loop", 5, 0, 5, TIER_SEVERAL);
	cr_assert_eq(span.point, address_of("probed_loop") + 5);
	/* the point comes at its end: one instruction, and who comes to the point came through it */
	stands("unreadable", 5, 0, 5, TIER_ONE);
}

Test(span, never_begins_before_a_call_that_returns_to_the_point)
{
	refused("probed_call", 9, WM_E_SPAN_TARGET, "at +1");
}

Test(span, ends_with_a_call_at_most)
{
	stands("probed_call", 4, 4, 5, TIER_ONE);
	cr_assert_eq(move_judge(&span.insns[0]), MOVE_LAST);
	refused("probed_call", 0, WM_E_SPAN_TARGET, "at +4");
}

Test(span, takes_padding_behind_a_short_function)
{
	stands("into_padding", 0, 0, 5, TIER_SEVERAL);
	cr_assert_eq(span.insn_count, 2);
	refused("too_short", 0, WM_E_SPAN_SHORT, "1 bytes");
}

Test(span, takes_a_relay_where_there_is_filler)
{
	stands("relayed", 0, 0, 3, TIER_ONE);
	cr_assert_eq(span.relay, address_of("relayed") + 9);
	refused("crossed", 0, WM_E_SPAN_TARGET, "at +2");
}

/* One span for these offsets; the first is the entry if it is 0. */
static int common(const char *name, unsigned int start, const unsigned int *offsets,
		  unsigned int count)
{
	static uint64_t points[8];
	uint64_t address = address_of(name);

	for (unsigned int i = 0; i < count; i++)
		points[i] = address + offsets[i];
	return span_find_common(&sweep, points[0], !offsets[0], address + start, points, count,
				&span);
}

Test(span, several_points_have_one_that_nothing_enters_but_at_its_start)
{
	const unsigned int inside[] = { 0, 1, 4, 7 }, end[] = { 1, 8 }, loop[] = { 2, 5 },
			   behind[] = { 5, 6 }, call[] = { 4, 9 }, wide[] = { 0, 40 },
			   too_wide[] = { 0, 50 };

	cr_assert_eq(common("several", 0, inside, 4), 0);
	cr_assert_eq(span.address, address_of("several"));
	cr_assert_eq(span.bytes, 7);
	cr_assert_eq(span.point, address_of("several"));
	cr_assert_eq(span.point_count, 4);
	cr_assert_eq(span.tier, TIER_SEVERAL);
	cr_assert_eq(common("several", 1, end, 2), 0);
	cr_assert_eq(span.bytes, 7);
	/* what follows it is jumped to: a point at its end is no other's */
	cr_assert_eq(common("probed_loop", 0, loop, 2), 0);
	cr_assert_eq(span.bytes, 5);
	cr_assert_eq(span.point, address_of("probed_loop") + 2);
	cr_assert_eq(common("probed_loop", 0, behind, 2), -WM_E_SPAN_TARGET);
	cr_assert_eq(common("probed_loop", 5, behind, 2), -WM_E_SPAN_TARGET);
	cr_assert_eq(common("wide_line", 0, wide, 2), 0);
	cr_assert_eq(span.bytes, 40);
	cr_assert_eq(common("wide_line", 0, too_wide, 2), -WM_E_DETOUR_TAKEN);
	/* nor does anything follow a call */
	cr_assert_eq(common("probed_call", 4, call, 2), -WM_E_SPAN_INSTRUCTION);
}

static bool is_claimed(const void *data, uint64_t start, uint64_t end)
{
	const struct image_range *claimed = data;

	return start < claimed->end && end > claimed->start;
}

Test(span, a_relay_takes_the_part_of_the_filler_that_is_left)
{
	uint64_t start = address_of("filler_long");
	struct image_range claimed = { start + 8, start + 12 };
	struct sweep_claims claims = { is_claimed, &claimed };

	stands("filler_long", 0, 0, 3, TIER_ONE);
	cr_assert_eq(span.relay, start + 9);
	sweep.claims = &claims;
	stands("filler_long", 0, 0, 3, TIER_ONE);
	cr_assert_eq(span.relay, start + 12);
	claimed.end = start + 15;
	cr_assert_eq(span_find_whole(&sweep, start, true, &span), 0);
	cr_assert_eq(span.relay, start + 15);
	/* what follows it is no filler */
	claimed.end = start + 16;
	refused("filler_long", 0, WM_E_SPAN_TARGET, "at +3");
	/* nor can what is claimed be replaced itself */
	claimed = (struct image_range){ start + 2, start + 3 };
	refused("filler_long", 0, WM_E_SPAN_TARGET, "at +3");
	sweep.claims = NULL;
}

Test(span, a_relay_never_lies_where_something_runs)
{
	refused("filler_target", 0, WM_E_SPAN_TARGET, "at +3");
	refused("filler_entered", 0, WM_E_SPAN_TARGET, "at +3");
	refused("filler_sled", 0, WM_E_SPAN_TARGET, "at +3");
	refused("filler_run", 0, WM_E_SPAN_TARGET, "at +3");
}

Test(span, a_relay_lies_as_far_as_a_short_jump_leads)
{
	refused("filler_beyond", 0, WM_E_SPAN_TARGET, "at +3");
	stands("filler_reached", 0, 0, 3, TIER_ONE);
	cr_assert_eq(span.relay, span.address + SPAN_SHORT_JUMP_BYTES + 127);
	refused("filler_too_early", 0, WM_E_SPAN_TARGET, "at +3");
	stands("filler_early", 0, 0, 3, TIER_ONE);
	cr_assert_eq(span.relay, span.address + SPAN_SHORT_JUMP_BYTES - 128);
}

Test(span, what_is_no_instruction_is_refused)
{
	refused("one_wide", 1, WM_E_MID_INSTRUCTION, "mov begins at -1");
	cr_assert_eq(span_find(&sweep, code_file_section(file, ".data")->address, true, &span),
		     -WM_E_NOT_CODE);
	refused("unreadable", 7, WM_E_CODE_UNREADABLE, "");
	refused("unreadable", 10, WM_E_CODE_UNREADABLE, "");
	stands("unreadable", 0, 0, 5, TIER_ONE);
}

Test(span, what_cannot_be_moved_is_refused)
{
	refused("with_syscall", 0, WM_E_SPAN_INSTRUCTION, "syscall at +2");
	refused("with_syscall", 2, WM_E_SPAN_INSTRUCTION, "syscall at +0");
	refused("computed", 0, WM_E_SPAN_TABLE, "");
	refused("computed_into", 0, WM_E_SPAN_TABLE, "");
	refused("signal_return", 0, WM_E_SIGNAL_FRAME, "");
	refused("with_marker", 2, WM_E_SPAN_MARKER, "");
	refused("with_marker", 1, WM_E_SPAN_MARKER, "");
	refused("with_restartable", 2, WM_E_RESTARTABLE, "");
	refused("with_restartable", 6, WM_E_RESTARTABLE, "");
}

Test(span, where_strings_may_run_backward_only_the_entry_can_be_had)
{
	refused("backward", 7, WM_E_STRINGS_BACKWARD, "");
	stands("backward", 0, 0, 6, TIER_SEVERAL);
}

static void punned(const char *name, unsigned int offset, unsigned int from, unsigned int bytes)
{
	stands(name, offset, from, bytes, TIER_PUNNED);
	cr_assert_gt(span.kept, 0);
	cr_assert_leq(span.kept, DETOUR_PUN_MAX);
	cr_assert_geq(span.bytes + span.kept, SPAN_JUMP_BYTES);
	cr_assert_eq(span.point, address_of(name) + offset);
}

Test(span, a_jump_is_punned_where_there_is_no_other)
{
	punned("too_short", 0, 0, 1);
	punned("probed_call", 0, 0, 4);
	/* the way back of a call lies behind the span, as ever */
	punned("probed_call", 9, 9, 1);
	punned("calling", 0, 0, 2);
	punned("computed", 0, 0, 1);
	/* no whole instruction, and what must stay as it is */
	cr_assert_neq(span_find(&sweep, address_of("one_wide") + 1, false, &span), 0);
	/* the event comes at the end of what is replaced, and the call is where it was */
	punned("with_syscall", 2, 0, 2);
	cr_assert_neq(span_find(&sweep, address_of("signal_return"), true, &span), 0);
	cr_assert_neq(span_find(&sweep, address_of("with_restartable") + 2, false, &span), 0);
	cr_assert_neq(span_find(&sweep, address_of("backward") + 7, false, &span), 0);
}

Test(span, flags_that_may_be_looked_at_are_kept)
{
	stands("flags_past_jump", 3, 3, 6, TIER_SEVERAL);
	cr_assert(span.keeps_flags);
	stands("flags_past_jump", 0, 0, 6, TIER_SEVERAL);
	cr_assert_not(span.keeps_flags, "an entry's are nobody's");
	stands("flags_far", 3, 3, 6, TIER_SEVERAL);
	cr_assert(span.keeps_flags);
	punned("flags_tight", 3, 3, 3);
	cr_assert(span.keeps_flags);
}

Test(span, a_punned_jump_never_ends_in_a_marker)
{
	cr_assert_neq(span_find(&sweep, address_of("with_marker") + 1, false, &span), 0);
	/* two bytes before it there is room for a relay's short jump */
	stands("with_marker", 0, 0, 2, TIER_SEVERAL);
	cr_assert_eq(span.kept, 0);
}

Test(span, a_punned_jump_prefers_to_lead_where_nothing_is)
{
	static const uint8_t below[] = { 0x00, 0x00, 0x00, 0xc0 }, above[] = { 0, 0, 0, 0x10 },
			     both[] = { 0x00, 0x00, 0x10, 0xc0 }, beyond[] = { 0, 0, 0, 0x60 };

	cr_assert_eq(pun_rank(0x555500000000, 1, below, 4, false), PUN_GOOD);
	cr_assert_eq(pun_rank(0x555500000000, 1, above, 4, false), PUN_POOR);
	/* code that lies at 4 MiB has nothing below */
	cr_assert_eq(pun_rank(0x400000, 1, below, 4, true), PUN_NEVER);
	cr_assert_eq(pun_rank(0x400000, 1, above, 4, true), PUN_POOR);
	cr_assert_eq(pun_rank(0x80000000, 1, below, 4, true), PUN_POOR);
	cr_assert_eq(pun_rank(0x400000, 1, beyond, 4, false), PUN_FAIR, "above the heap");
	cr_assert_eq(pun_rank(0x400000, 5, below, 0, false), PUN_NEVER, "it needs none");
	/* one byte is free: for the distance's lowest, or for a prefix, and then the fourth counts */
	cr_assert_eq(pun_rank(0x555500000000, 2, both, 3, false), PUN_POOR);
	cr_assert_eq(pun_rank(0x555500000000, 2, both, 4, false), PUN_GOOD);
	cr_assert_eq(pun_rank(0x555500000000, 2, below + 1, 3, false), PUN_GOOD);
	/* it must end somewhere */
	cr_assert_eq(pun_rank(0x555500000000, 1, below, 3, false), PUN_NEVER);
}

static struct trampoline trampoline;

static int composed(const char *name, struct code_operand from, int wants_return)
{
	struct code_place place = { .address = address_of(name),
				    .is_entry = 1,
				    .field_count = 1,
				    .wants_entry = 1,
				    .wants_return = wants_return };

	place.fields[0].type = WM_TYPE_U64;
	place.fields[0].from = from;
	return trampoline_compose(&sweep, &place, &trampoline);
}

Test(span, returns_are_taken_where_it_is_known_what_they_are)
{
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	cr_assert_eq(composed("one_wide", rdi, 1), 0);
	cr_assert_eq(composed("protected", rdi, 1), 0);
	cr_assert_eq(composed("odd_frame", rdi, 0), 0);
	cr_assert_eq(composed("odd_frame", rdi, 1), -WM_E_RETURN_FRAME);
	cr_assert_eq(composed("frameless", rdi, 1), -WM_E_RETURN_FRAME);
	cr_assert_eq(composed("_setjmp", rdi, 0), 0);
	cr_assert_eq(composed("_setjmp", rdi, 1), -WM_E_RETURN_LOOKED_AT);
	cr_assert_eq(composed("abort", rdi, 1), -WM_E_NO_RETURN);
}

Test(span, a_moved_call_is_told)
{
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	cr_assert_eq(composed("calling_wide", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_CALL);
	cr_assert_eq(composed("one_wide", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, 0);
	/* the way back must not lie in what is replaced */
	refused("calling", 0, WM_E_SPAN_SHORT, "2 bytes");
	refused("calling_aligned", 0, WM_E_SPAN_SHORT, "2 bytes");
	cr_assert_eq(composed("calling", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_CALL);
	cr_assert_eq(trampoline.detour.span_bytes, 2);
}

Test(span, fields_that_make_no_sense_are_refused)
{
	struct code_operand far = { OPERAND_MEMORY, 8, 7, OPERAND_NONE, 1, INT32_MAX };
	struct code_operand wide = { OPERAND_REGISTER, 3, 5, OPERAND_NONE, 1, 0 };
	struct code_operand none = { OPERAND_REGISTER, 8, 16, OPERAND_NONE, 1, 0 };
	struct code_operand index = { OPERAND_MEMORY, 8, 5, 7, 1, 0 };
	struct code_operand high = { OPERAND_HIGH, 1, 4, OPERAND_NONE, 1, 0 };

	cr_assert_eq(composed("one_wide", far, 0), -WM_E_FIELD_REACH);
	cr_assert_eq(composed("one_wide", wide, 0), -EINVAL);
	cr_assert_eq(composed("one_wide", none, 0), -EINVAL);
	cr_assert_eq(composed("one_wide", index, 0), -EINVAL);
	cr_assert_eq(composed("one_wide", high, 0), -EINVAL);
}

Test(span, code_of_go_and_returns_of_a_runtime_that_walks_stacks_are_refused)
{
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	fixture_close();
	open_module(RUNTIME_FIXTURE);
	cr_assert(code_file_is_go(file));
	refused("goroutine", 0, WM_E_GO_CODE, "");
	stands("c_function", 0, 0, 5, TIER_ONE);
	cr_assert_eq(composed("c_function", rdi, 0), 0);
	cr_assert_eq(composed("c_function", rdi, 1), -WM_E_RETURN_WALKED);
}
