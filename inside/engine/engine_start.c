/* SPDX-License-Identifier: MIT */
/*
 * The engine's beginning in a process: gate.S comes here, on a stack of its own, before anything is
 * ready.
 */
#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/attach.h"
#include "inside/engine/channel.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/places.h"
#include "inside/engine/processor.h"
#include "inside/engine/ranges.h"
#include "inside/engine/signal.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/trace.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define CONTEXT_FLAGS                                                                              \
	6u /* UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS: the selectors are what they say */
#define SELECTORS (INT64_C(0x2b) << 48 | 0x33)

/* R_X86_64_RELATIVE is all there is; the build sees to it. */
static void relocate(uint64_t base, const Elf64_Dyn *dynamic)
{
	const Elf64_Rela *rela = NULL;
	uint64_t bytes = 0;

	for (; dynamic->d_tag; dynamic++) {
		if (dynamic->d_tag == DT_RELA)
			rela = (const Elf64_Rela *)(base + dynamic->d_un.d_ptr);
		if (dynamic->d_tag == DT_RELASZ)
			bytes = dynamic->d_un.d_val;
	}
	for (; bytes; bytes -= sizeof(*rela), rela++)
		*(uint64_t *)(base + rela->r_offset) = base + (uint64_t)rela->r_addend;
}

extern const char __ehdr_start[], _end[];

/*
 * The tool has copied us into memory with all permissions. It used the memory behind us for itself.
 */
static int protect_own(const struct engine_boot *boot)
{
	uint64_t base = (uint64_t)__ehdr_start,
		 behind = base + ((uint64_t)(_end - __ehdr_start) + 4095) / 4096 * 4096;
	const Elf64_Ehdr *file = (const Elf64_Ehdr *)base;
	const Elf64_Phdr *part = (const Elf64_Phdr *)(base + file->e_phoff);
	uint64_t table = boot->taken_at + boot->taken_count * sizeof(struct engine_taken) +
			 sizeof(*boot);
	long err = sys_call3(SYS_mprotect, (long)behind, (long)((table - behind + 4095) & ~4095ul),
			     PROT_READ | PROT_WRITE);

	for (unsigned int i = 0; i < file->e_phnum && !err; i++, part++) {
		uint64_t first = part->p_vaddr & ~UINT64_C(4095);
		long prot = (part->p_flags & PF_R ? PROT_READ : 0) |
			    (part->p_flags & PF_W ? PROT_WRITE : 0) |
			    (part->p_flags & PF_X ? PROT_EXEC : 0);

		if (part->p_type == PT_LOAD)
			err = sys_call3(SYS_mprotect, (long)(base + first),
					(long)((part->p_vaddr + part->p_memsz - first + 4095) &
					       ~UINT64_C(4095)),
					prot);
	}
	return (int)err;
}

/* What it takes before anything of the program's is touched. */
static int open_memory(void)
{
	int is_far = !!(channel.flags & ENGINE_BOOT_FAR), err;

	memory_open(is_far);
	err = map_open(is_far);
	if (!err)
		err = traces_open();
	if (err)
		return err;
	processor_look();
	/* copies of the process run on in it */
	sys_call3(SYS_madvise, (long)__ehdr_start, (_end - __ehdr_start + 4095) & ~4095l,
		  MADV_DONTDUMP);
	places_given((uint64_t)__ehdr_start, (uint64_t)(_end - __ehdr_start));
	ranges_hide((uint64_t)__ehdr_start, (uint64_t)(_end - __ehdr_start));
	return ranges_read();
}

/* Run natively, as a program begins: the engine is nowhere but in memory. */
static void refuse(const struct engine_regs *regs) __attribute__((noreturn));

static void refuse(const struct engine_regs *regs)
{
	struct frame_context context = { .uc_flags = CONTEXT_FLAGS };

	for (unsigned int i = 0; i < 16; i++)
		*frame_gpr(&context, i) = regs->gpr[i];
	*frame_rip(&context) = regs->rip;
	*frame_flags(&context) = regs->rflags;
	context.uc_mcontext.gregs[REG_CSGSFS] = SELECTORS;
	context.uc_stack.ss_flags = SS_DISABLE;
	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)frame_mask(&context), 8, 0, 0);
	gate_return(&context);
}

/* Of attach.S. */
void attach_called(void);
void attach_way_take(void);
void attach_way_commit(void);
void attach_way_undo(void);
void attach_way_leave(void);

extern uint8_t start_stack_end[];

void engine_places(struct engine_channel *head)
{
	head->places = (struct engine_places){
		.take = (uint64_t)attach_way_take,
		.commit = (uint64_t)attach_way_commit,
		.undo = (uint64_t)attach_way_undo,
		.leave = (uint64_t)attach_way_leave,
		.stack = (uint64_t)start_stack_end,
		.call_done = (uint64_t)gate_call_done,
		.call_back = (uint64_t)attach_called,
		.start = (uint64_t)__ehdr_start,
		.bytes = ((uint64_t)(_end - __ehdr_start) + 4095) & ~UINT64_C(4095),
		.own_signals = action_own,
		.mappings = (uint64_t)places_all(),
		.mapping_count = PLACES_MAX,
	};
}

void engine_start(struct engine_channel *head, uint64_t base, const void *dynamic,
		  struct engine_boot *at)
{
	struct engine_boot boot;
	struct thread *thread;
	int err;

	relocate(base, dynamic);
	debug_trace_open();
	boot = *at;
	memory_clear(at, sizeof(*at));
	err = channel_open(head, &boot);
	for (int i = 0; i < 2; i++)
		if (boot.fd_close[i] >= 0)
			sys_call3(SYS_close, boot.fd_close[i], 0, 0);
	if (!err && boot.flags & ENGINE_BOOT_TAKEN)
		err = protect_own(&boot);
	if (!err)
		err = open_memory();
	engine_places(head);
	DEBUG_TRACE("engine/start", "at %x, flags %x, %d threads taken: error %d", base, boot.flags,
		    boot.taken_count, err);
	if (boot.flags & ENGINE_BOOT_TAKEN)
		attach_open(head, &boot, err);
	thread = err ? NULL : thread_make();
	if (!err)
		err = thread ? thread_enter(thread) : -ENOMEM;
	/* leave() would need what thread_enter() does */
	if (err) {
		head->error = err;
		__atomic_store_n(&head->state, ENGINE_REFUSED, __ATOMIC_RELEASE);
		sys_call3(SYS_arch_prctl, ARCH_SET_GS, 0, 0);
		refuse(&boot.regs);
	}
	thread->regs = boot.regs;
	thread_first(1);
	leave_enlist(thread);
	err = signal_open(thread);
	if (!err)
		err = thread_words_open(thread);
	head->error = err;
	__atomic_store_n(&head->state, err ? ENGINE_REFUSED : ENGINE_RUNS, __ATOMIC_RELEASE);
	DEBUG_TRACE("engine/start", "the program begins at %x: error %d", thread->regs.rip, err);
	if (err)
		leave(thread, thread->regs.rip);
	dispatch_to(thread, thread->regs.rip, NULL);
}
