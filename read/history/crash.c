/* SPDX-License-Identifier: MIT */
#include "read/history/crash.h"

#include <errno.h>
#include <string.h>

#define GENERAL 16u

/* For each register number of a trail (the processor's): DWARF's number, and the name. */
static const struct {
	uint8_t dwarf;
	char name[4];
} general[GENERAL] = {
	{ 0, "rax" },	    { 2, "rcx" },	{ 1, "rdx" },  { 3, "rbx" },
	{ CFI_RSP, "rsp" }, { CFI_RBP, "rbp" }, { 4, "rsi" },  { 5, "rdi" },
	{ 8, "r8" },	    { 9, "r9" },	{ 10, "r10" }, { 11, "r11" },
	{ 12, "r12" },	    { 13, "r13" },	{ 14, "r14" }, { 15, "r15" },
};

const char *crash_register(uint32_t number)
{
	if (number < GENERAL)
		return general[number].name;
	return number == TRAIL_VALUE_RIP ? "rip" : "rflags";
}

/* Read from the stack, as far as it was recorded. */
static int read_stack(void *data, uint64_t address, void *to, size_t bytes)
{
	const struct trail_values *values = ((const struct crash *)data)->values;
	uint64_t from = values->of[TRAIL_VALUE_REGISTERS + 4] - TRAIL_RED_ZONE, at = address - from;
	uint64_t room = (TRAIL_VALUES - TRAIL_VALUE_STACK) * sizeof(uint64_t);

	if (!values->has[TRAIL_VALUE_REGISTERS + 4] || at > room || bytes > room - at)
		return -1;
	for (uint64_t i = at / 8; i * 8 < at + bytes; i++)
		if (!values->has[TRAIL_VALUE_STACK + i])
			return -1;
	memcpy(to, (const uint8_t *)&values->of[TRAIL_VALUE_STACK] + at, bytes);
	return 0;
}

static void first_frame(const struct trail_values *values, struct cfi_registers *frame)
{
	*frame = (struct cfi_registers){ .is_exact = 1 };
	for (unsigned int i = 0; i < GENERAL; i++) {
		frame->values[general[i].dwarf] = values->of[TRAIL_VALUE_REGISTERS + i];
		if (values->has[TRAIL_VALUE_REGISTERS + i])
			frame->known |= 1u << general[i].dwarf;
	}
	frame->values[CFI_RETURN] = values->of[TRAIL_VALUE_RIP];
	if (values->has[TRAIL_VALUE_RIP])
		frame->known |= 1u << CFI_RETURN;
}

/* At an address without code, the thread has just made the call that led there. */
static int undo_call(const struct code_frame *frame, struct cfi_registers *up)
{
	*up = frame->registers;
	if (!up->is_exact || frame->memory.read(frame->memory.data, up->values[CFI_RSP],
						&up->values[CFI_RETURN], sizeof(uint64_t)))
		return -ENOENT;
	up->values[CFI_RSP] += sizeof(uint64_t);
	up->is_exact = 0;
	return 0;
}

static void frame_fill(struct crash *crash, struct code_frame *frame)
{
	const struct image_place *place = image_place(crash->image,
						      code_frame_at(&frame->registers));

	frame->memory = (struct cfi_reader){ read_stack, crash };
	frame->name = place && place->linkage ? place->linkage : "";
	if (!place || !place->module)
		return;
	frame->file = place->module->file;
	frame->base = place->module->base;
	frame->start = place->start;
}

void crash_init(struct crash *crash, const struct trail_values *values, struct image *image)
{
	struct cfi_registers registers;
	int err = values ? 0 : -ENOENT;

	crash->values = values;
	crash->image = image;
	crash->count = 0;
	if (!err)
		first_frame(values, &registers);
	while (!err && crash->count < CRASH_FRAMES_MAX) {
		struct code_frame *frame = &crash->frames[crash->count];

		*frame = (struct code_frame){ .registers = registers };
		frame_fill(crash, frame);
		if (crash->count++)
			frame[-1].caller = frame;
		err = frame->file ? code_frame_up(frame, &registers) : undo_call(frame, &registers);
	}
}
