/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the trail's engine (engine/): it says in the channel that it runs, writes that
 * one block ran, of the program's first two bytes, which it calls a path of 1, and lets the program
 * run natively. Nothing of the program's may be touched: it has its own stack.
 */
#include "abi/engine.h"

#include <stddef.h>

#define STACK_BYTES 4096

struct first_trace {
	struct engine_trace trace;
	struct trail_entry block;
	uint8_t code[8];
	uint16_t exits[4];
};

static const struct engine_note note
	__attribute__((section(ENGINE_NOTE_SECTION), used, aligned(4))) = { ENGINE_NOTE_VALUES };

static struct engine_boot own;
static const struct engine_boot *boot __attribute__((used));
static uint64_t target __attribute__((used));
static volatile uint64_t cleared[2]; /* nothing of the file's */
static volatile uint64_t filled[2] = { 1, 2 };
uint8_t engine_stack[STACK_BYTES] __attribute__((aligned(16), visibility("hidden")));

void engine_begin(struct engine_channel *channel, uint64_t base, struct engine_boot *at)
	__attribute__((used, visibility("hidden")));

static void log_first(struct engine_channel *channel)
{
	struct first_trace *first = (struct first_trace *)((char *)channel + channel->log_at);

	first->trace = (struct engine_trace){ { sizeof(*first), ENGINE_ENTRY_TRACE }, 1, 1, 1 };
	first->block = (struct trail_entry){ .start = boot->regs.rip,
					     .bytes = 2,
					     .instructions = 1,
					     .kind = TRAIL_JUMP_INDIRECT,
					     .flags = TRAIL_HAS_CODE };
	first->code[0] = ((const uint8_t *)boot->regs.rip)[0];
	first->code[1] = ((const uint8_t *)boot->regs.rip)[1];
	first->exits[0] = 1;
	__atomic_store_n(&channel->log_put, sizeof(*first), __ATOMIC_RELEASE);
}

void engine_begin(struct engine_channel *channel, uint64_t base, struct engine_boot *at)
{
	struct engine_slot *slot = (struct engine_slot *)((char *)channel + channel->slots_at);

	/* as the engine does: nothing of it stays below the program's stack */
	for (unsigned int i = 0; i < sizeof(own); i++) {
		((volatile char *)&own)[i] = ((volatile char *)at)[i];
		((volatile char *)at)[i] = 0;
	}
	boot = &own;
	target = boot->regs.rip;
	if (!base || cleared[0] || cleared[1] || filled[0] != 1 || filled[1] != 2) {
		channel->error = -5;
		__atomic_store_n(&channel->state, ENGINE_REFUSED, __ATOMIC_RELEASE);
		return;
	}
	log_first(channel);
	slot->tid = 1;
	slot->began_ticks = __builtin_ia32_rdtsc();
	slot->comm[0] = 'x';
	*(uint32_t *)((char *)channel + channel->rings_at) = 1;
	slot->segments[0].number = 1;
	__atomic_store_n(&slot->state, ENGINE_SLOT_LIVE, __ATOMIC_RELEASE);
	__atomic_store_n(&channel->state, ENGINE_RUNS, __ATOMIC_RELEASE);
}

#define REGISTER(name, number) "mov " #number "*8(%rax), %" #name "\n"

__asm__(".globl engine_entry\n"
	".hidden engine_entry\n"
	"engine_entry:\n"
	"lea engine_stack+4096(%rip), %rsp\n"
	"call engine_begin\n"
	"mov boot(%rip), %rax\n" /* its first field are the registers */
	REGISTER(rcx, 1) REGISTER(rdx, 2) REGISTER(
		rbx, 3) "lea engine_stack+4096(%rip), %rsp\n"
			"push 17*8(%rax)\n"
			"popf\n" REGISTER(rsp, 4) REGISTER(rbp, 5) REGISTER(rsi, 6) REGISTER(rdi, 7)
				REGISTER(r8, 8) REGISTER(r9, 9) REGISTER(r10, 10) REGISTER(r11, 11)
					REGISTER(r12, 12) REGISTER(r13, 13) REGISTER(r14, 14)
						REGISTER(r15, 15)
							REGISTER(rax, 0) "jmp *target(%rip)\n");
