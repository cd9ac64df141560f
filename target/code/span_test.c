/* SPDX-License-Identifier: MIT */
#include "target/code/span.h"

#include "target/code/file.h"
#include "target/code/symbol.h"
#include "target/code/trampoline.h"

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

static const struct prologue *entry_at(unsigned int offset)
{
	static const struct prologue entry = { .kept = PROLOGUE_ARGUMENTS,
					       .room_max = PROLOGUE_STACK_MAX };

	return offset ? NULL : &entry;
}

/*
 * The choice with a number for name+offset is the instruction at name+at, of so many bytes, with so
 * many words on the stack since the point.
 */
static void chooses(const char *name, unsigned int offset, unsigned int number, unsigned int at,
		    unsigned int bytes, unsigned int words)
{
	uint64_t start = address_of(name);

	cr_assert_eq(span_find(&sweep, start + offset, entry_at(offset), number, &span), 0,
		     "%s+%u: %s %s", name, offset, wm_error_text(span.refusal), span.detail);
	cr_assert_eq(span.point, start + offset);
	cr_assert_eq(span.address, start + at, "%s+%u: +%lu", name, offset, span.address - start);
	cr_assert_eq(span.stack_bytes, 8 * words, "%s+%u: %u bytes of stack", name, offset,
		     span.stack_bytes);
	cr_assert_eq(span.insn.decoded.length, bytes, "%s+%u: %u bytes", name, offset,
		     span.insn.decoded.length);
}

/* It is the last one. */
static void chooses_last(const char *name, unsigned int offset, unsigned int number,
			 unsigned int at, unsigned int bytes, unsigned int words)
{
	struct span beyond;

	chooses(name, offset, number, at, bytes, words);
	cr_assert_eq(span_find(&sweep, span.point, entry_at(offset), number + 1, &beyond), -ENOENT,
		     "%s+%u: there are more", name, offset);
}

static void refused(const char *name, unsigned int offset, int err, const char *detail)
{
	cr_assert_eq(span_find(&sweep, address_of(name) + offset, entry_at(offset), 0, &span), -err,
		     "%s+%u: %s", name, offset, wm_error_text(span.refusal));
	cr_assert_eq(span.refusal, -err);
	cr_assert_str_eq(span.detail, detail, "%s+%u: %s", name, offset, span.detail);
}

Test(span, the_point_itself_is_the_first_choice)
{
	chooses("one_wide", 0, 0, 0, 5, 0);
	chooses_last("several", 1, 0, 1, 3, 0);
	chooses_last("several", 8, 0, 8, 1, 0);
	chooses_last("calling", 0, 0, 0, 2, 0);
	chooses_last("with_syscall", 0, 0, 0, 2, 0);
	chooses_last("unreadable", 5, 0, 5, 2, 0);
	chooses_last("backward", 7, 0, 7, 5, 0);
}

Test(span, nothing_replaces_endbr64)
{
	chooses("protected", 0, 0, 4, 5, 0);
	/* the events of who comes by the loop would be calls, too */
	refused("protected_loop", 0, WM_E_SPAN_TARGET, "behind endbr64");
	chooses_last("protected_loop", 4, 0, 4, 5, 0);
}

Test(span, each_nop_and_what_follows_the_last_is_a_choice)
{
	for (unsigned int i = 0; i < 5; i++)
		chooses("patchable", 0, i, 4 + i, 1, 0);
	chooses_last("patchable", 0, 5, 9, 1, 0);
	/* behind it a loop begins */
	chooses_last("probed_loop", 5, 0, 5, 1, 0);
}

Test(span, pushes_are_passed_at_an_entry)
{
	chooses("pushes", 0, 0, 4, 2, 0);
	chooses("pushes", 0, 1, 6, 1, 1);
	chooses("pushes", 0, 2, 7, 1, 2);
	chooses("pushes", 0, 3, 8, 3, 3);
	chooses_last("pushes", 0, 4, 11, 1, 3);
	chooses("several", 0, 1, 1, 3, 1);
	/* elsewhere they stay behind the event */
	chooses_last("pushes", 4, 0, 4, 2, 0);
	chooses_last("pushes_looped", 0, 0, 0, 1, 0);
	chooses_last("pushes_stack", 0, 0, 0, 1, 0);
	chooses_last("pushes_constant", 0, 0, 0, 2, 0);
}

/* The choices for an entry are at these offsets, with so many words on the stack since. */
static void passes(const char *name, unsigned int count, const uint8_t *at, const uint8_t *words)
{
	uint64_t start = address_of(name);

	for (unsigned int i = 0; i < count; i++) {
		cr_assert_eq(span_find(&sweep, start, entry_at(0), i, &span), 0, "%u", i);
		cr_assert_eq(span.address, start + at[i], "%u: +%lu", i, span.address - start);
		cr_assert_eq(span.stack_bytes, 8u * words[i], "%u: %u", i, span.stack_bytes);
	}
	cr_assert_eq(span_find(&sweep, start, entry_at(0), count, &span), -ENOENT);
}

Test(span, what_an_event_does_not_read_is_passed_at_an_entry)
{
	passes("prologue", DETOUR_CHOICES_MAX, (uint8_t[]){ 0, 1, 4, 7, 9, 13, 17, 20 },
	       (uint8_t[]){ 0, 1, 1, 1, 1, 1, 1, 1 });
	passes("prologue_flags", 3, (uint8_t[]){ 0, 1, 4 }, (uint8_t[]){ 0, 0, 0 });
	passes("prologue_room", 7, (uint8_t[]){ 0, 3, 7, 16, 20, 25, 32 },
	       (uint8_t[]){ 0, 0, 5, 5, 5, 5, 5 });
}

/* What each of these does behind its first instruction, a nop, is not to come before the event. */
Test(span, what_an_event_may_read_is_not_passed)
{
	static const char *const names[] = {
		"stops_argument", "stops_half_argument", "stops_stack_argument", "stops_red_zone",
		"stops_pointer",  "stops_vector",	 "stops_frame",		 "stops_pop",
		"stops_global",	  "stops_call",		 "stops_locked",	 "stops_align",
		"stops_string",	  "stops_table",
	};
	uint64_t start;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		start = address_of(names[i]);
		cr_assert_eq(span_find(&sweep, start, entry_at(0), 1, &span), 0, "%s", names[i]);
		cr_assert_eq(span.address, start + 1, "%s", names[i]);
		cr_assert_eq(span_find(&sweep, start, entry_at(0), 2, &span), -ENOENT, "%s",
			     names[i]);
	}
}

Test(span, registers_that_fields_read_are_kept)
{
	struct prologue entry = { .kept = PROLOGUE_ARGUMENTS | 1u << 3,
				  .room_max = PROLOGUE_STACK_MAX };
	uint64_t start = address_of("prologue");

	/* mov %rdi, %rbx */
	cr_assert_eq(span_find(&sweep, start, &entry, 2, &span), 0);
	cr_assert_eq(span.address, start + 4);
	cr_assert_eq(span_find(&sweep, start, &entry, 3, &span), -ENOENT);
	entry = (struct prologue){ .kept = PROLOGUE_ARGUMENTS, .room_max = 39 };
	start = address_of("prologue_room");
	cr_assert_eq(span_find(&sweep, start, &entry, 1, &span), 0);
	cr_assert_eq(span_find(&sweep, start, &entry, 2, &span), -ENOENT);
	entry.room_max = 40;
	cr_assert_eq(span_find(&sweep, start, &entry, 2, &span), 0);
}

Test(span, nothing_is_passed_where_jumps_are_not_understood)
{
	chooses_last("computed", 0, 0, 0, 1, 0);
	chooses_last("computed_into", 0, 0, 0, 1, 0);
	chooses_last("computed_probed", 2, 0, 2, 1, 0);
}

Test(span, a_nop_that_the_kernel_replaces_is_left_to_it)
{
	chooses_last("wide_nop", 5, 0, 5, 3, 0);
	chooses("wide_nop", 0, 0, 5, 3, 0);
	refused("wide_nop_looped", 0, WM_E_SPAN_NOP, "5 bytes at +0");
	refused("wider_nop_looped", 0, WM_E_SPAN_NOP, "10 bytes at +0");
}

/* Behind name+offset so many bytes may end a distance, and instructions begin at those of a set. */
static void keeps(const char *name, unsigned int offset, unsigned int bytes, unsigned int starts)
{
	cr_assert_eq(span_find(&sweep, address_of(name) + offset, NULL, 0, &span), 0);
	cr_assert_eq(span.kept, bytes, "%s+%u: %u bytes", name, offset, span.kept);
	cr_assert_eq(span.starts, starts, "%s+%u: %x", name, offset, span.starts);
}

Test(span, bytes_behind_it_are_kept_up_to_what_others_change)
{
	keeps("several", 0, 4, 1 | 8);
	keeps("several", 4, 4, 1 | 2 | 4);
	keeps("unreadable", 5, 4, 1 | 2 | 4 | 8);
	keeps("before_wide_nop", 0, 3, 1);
	keeps("with_marker", 7, 4, 1 | 2 | 4);
	/* of the section behind its own; of the last nothing is there */
	keeps("long_moves", 42, 4, 1 | 8);
	keeps("last", 0, 2, 1 | 2);
}

/* What the jump at name+offset may take is so many bytes. */
static void takes(const char *name, unsigned int offset, unsigned int bytes)
{
	cr_assert_eq(span_find(&sweep, address_of(name) + offset, NULL, 0, &span), 0);
	cr_assert_eq(span.bytes, bytes, "%s+%u: %u bytes", name, offset, span.bytes);
}

Test(span, filler_that_nothing_runs_belongs_to_what_is_before_it)
{
	takes("filler_entered", 4, 1);
	takes("filler_entered", 6, 10);
	takes("several", 4, 3);
	/* perhaps the jump leads there */
	takes("computed_probed", 10, 2);
	/* run when the call returns */
	takes("calling", 0, 2);
}

Test(span, where_no_jump_can_end_there_is_no_choice)
{
	refused("before_wide_nop", 2, WM_E_SPAN_NOP, "at +3");
	refused("with_marker", 0, WM_E_SPAN_MARKER, "at +2");
	refused("with_marker", 1, WM_E_SPAN_MARKER, "at +1");
	refused("with_restartable", 0, WM_E_RESTARTABLE, "at +2");
	refused("last", 3, WM_E_SPAN_END, "at +2");
	/* its own instruction is short, what follows is not */
	chooses("pushes_nop", 0, 0, 6, 3, 1);
}

Test(span, what_is_no_instruction_is_refused)
{
	refused("one_wide", 1, WM_E_MID_INSTRUCTION, "mov begins at -1");
	cr_assert_eq(span_find(&sweep, code_file_section(file, ".data")->address, entry_at(0), 0,
			       &span),
		     -WM_E_NOT_CODE);
	refused("unreadable", 7, WM_E_CODE_UNREADABLE, "");
	refused("unreadable", 10, WM_E_CODE_UNREADABLE, "");
}

Test(span, what_cannot_be_replaced_is_refused)
{
	refused("with_syscall", 2, WM_E_SPAN_INSTRUCTION, "syscall at +0");
	refused("past_prefix", 4, WM_E_SPAN_TARGET, "at +1");
	refused("prologue_prefix", 0, WM_E_SPAN_TARGET, "at +1");
	refused("signal_return", 0, WM_E_RESTARTABLE, "");
	refused("with_marker", 2, WM_E_SPAN_MARKER, "");
	refused("with_restartable", 2, WM_E_RESTARTABLE, "");
	refused("with_restartable", 6, WM_E_RESTARTABLE, "");
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
	return trampoline_compose(&sweep, &place, 0, &trampoline);
}

Test(span, returns_are_taken_where_it_is_known_what_they_are)
{
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	cr_assert_eq(composed("one_wide", rdi, 1), 0);
	cr_assert_eq(composed("protected", rdi, 1), 0);
	cr_assert_eq(composed("odd_frame", rdi, 0), 0);
	cr_assert_eq(composed("odd_frame", rdi, 1), -WM_E_RETURN_FRAME);
	cr_assert_eq(composed("frameless", rdi, 1), -WM_E_RETURN_FRAME);
	/* a program's own, of a name that libc has too */
	cr_assert_eq(composed("_setjmp", rdi, 1), 0);
	cr_assert_eq(composed("abort", rdi, 1), 0);
}

Test(span, return_of_function_that_looks_at_it_is_refused)
{
	static const struct {
		const char *name, *detail;
	} lookers[] = {
		{ "looks", "mov at 0x" },
		{ "looks_deep", "mov at 0x" },
		{ "looks_framed", "mov at 0x" },
		{ "looks_frame", "mov at 0x" },
		{ "looks_pop", "pop at 0x" },
		{ "looks_address", "lea at 0x" },
		{ "looks_copy", "mov at 0x" },
		{ "ends_looking", "mov at 0x" },
		{ "ends_perhaps", "mov at 0x" },
		{ "ends_in_own", "mov at 0x" },
		{ "ends_in_dlsym", "it ends in a jump to dlsym" },
		{ "ends_in_dlopen", "it ends in a jump to dlopen" },
		{ "ends_in_large", "it ends in a jump through a pointer, which may lead to dl" },
		{ "unwinds", "it calls backtrace" },
		{ "profiled", "it calls mcount" },
		{ "profiled_first", "it calls __fentry__" },
	};
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	for (size_t i = 0; i < sizeof(lookers) / sizeof(*lookers); i++) {
		cr_assert_eq(composed(lookers[i].name, rdi, 0), 0, "%s", lookers[i].name);
		cr_assert_eq(composed(lookers[i].name, rdi, 1), -WM_E_RETURN_LOOKED_AT, "%s",
			     lookers[i].name);
		cr_assert_eq(strncmp(trampoline.detail, lookers[i].detail,
				     strlen(lookers[i].detail)),
			     0, "%s: %s", lookers[i].name, trampoline.detail);
	}
	cr_assert_eq(composed("blind", rdi, 1), 0, "%s", trampoline.detail);
	cr_assert_eq(composed("blind_too", rdi, 1), 0, "%s", trampoline.detail);
}

Test(span, a_record_says_what_is_replaced)
{
	struct code_place place = {
		.address = address_of("pushes"), .is_entry = 1, .wants_entry = 1, .is_safe = 1
	};

	cr_assert_eq(trampoline_compose(&sweep, &place, 0, &trampoline), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_SAFE | DETOUR_ENTRY);
	cr_assert_eq(trampoline.detour.point, place.address);
	cr_assert_eq(trampoline.detour.address, place.address + 4);
	cr_assert_eq(trampoline.detour.stack_bytes, 0);
	cr_assert_eq(trampoline_compose(&sweep, &place, 2, &trampoline), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_SAFE | DETOUR_ELSE | DETOUR_ENTRY);
	cr_assert_eq(trampoline.detour.point, place.address);
	cr_assert_eq(trampoline.detour.address, place.address + 7);
	cr_assert_eq(trampoline.detour.stack_bytes, 16);
	cr_assert_eq(trampoline.detour.insn_bytes, 1);
	cr_assert_eq(trampoline.detour.kept_bytes, 4);
	cr_assert_eq(trampoline.detour.starts, 1 | 8);
	cr_assert_arr_eq(trampoline.detour.original, ((uint8_t[]){ 0x53, 0x48, 0x89, 0xfb, 0x5b }),
			 5);
	cr_assert_eq(trampoline_compose(&sweep, &place, 5, &trampoline), -ENOENT);
}

Test(span, a_moved_call_is_told)
{
	struct code_operand rdi = { OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };

	cr_assert_eq(composed("calling_wide", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_CALL | DETOUR_ENTRY);
	cr_assert_eq(composed("calling", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_CALL | DETOUR_ENTRY);
	cr_assert_eq(composed("one_wide", rdi, 0), 0);
	cr_assert_eq(trampoline.detour.flags, DETOUR_ENTRY);
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
	chooses("c_function", 0, 0, 0, 5, 0);
	cr_assert_eq(composed("c_function", rdi, 0), 0);
	cr_assert_eq(composed("c_function", rdi, 1), -WM_E_RETURN_LOOKED_AT);
}

Test(span, where_a_handler_may_replace_the_call_no_register_has_changed)
{
	struct code_place place = {
		.address = address_of("prologue"), .is_entry = 1, .wants_entry = 1, .replaces = 1
	};

	/* push %rbp; mov %rsp, %rbp */
	cr_assert_eq(trampoline_compose(&sweep, &place, 1, &trampoline), 0);
	cr_assert_eq(trampoline.detour.address, place.address + 1);
	cr_assert_eq(trampoline.detour.stack_bytes, 8);
	cr_assert_eq(trampoline_compose(&sweep, &place, 2, &trampoline), -ENOENT);
	place.replaces = 0;
	cr_assert_eq(trampoline_compose(&sweep, &place, 2, &trampoline), 0);
}
