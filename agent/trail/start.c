/* SPDX-License-Identifier: MIT */
/* The engine's beginning in a process: gate.S comes here, on a stack of its own, before anything is ready. */
#include "agent/trail/channel.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/gate.h"
#include "agent/trail/leave.h"
#include "agent/trail/lock.h"
#include "agent/trail/map.h"
#include "agent/trail/ranges.h"
#include "agent/trail/ring.h"
#include "agent/trail/signal.h"
#include "agent/trail/sys.h"
#include "agent/trail/threads.h"
#include "agent/trail/trace.h"
#include "agent/trail/translate.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>

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

static int open_all(struct thread *thread)
{
	int err = map_open();

	if (!err)
		err = traces_open();
	if (err)
		return err;
	translate_open();
	ranges_hide((uint64_t)__ehdr_start, (uint64_t)(_end - __ehdr_start));
	ranges_read();
	err = thread_enter(thread);
	if (!err)
		err = signal_open(thread);
	return err ? err : ring_open(thread);
}

void engine_start(struct engine_channel *head, uint64_t base, const void *dynamic)
{
	struct thread *thread;
	int err;

	relocate(base, dynamic);
	err = channel_open(head);
	for (int i = 0; i < 2; i++)
		if (head->boot.fd_close[i] >= 0)
			sys_call3(SYS_close, head->boot.fd_close[i], 0, 0);
	thread = thread_make();
	thread->regs = head->boot.regs;
	if (!err)
		err = open_all(thread);
	head->error = err;
	__atomic_store_n(&head->state, err ? ENGINE_REFUSED : ENGINE_RUNS, __ATOMIC_RELEASE);
	if (err)
		leave(thread, thread->regs.rip);
	thread_first();
	dispatch_to(thread, thread->regs.rip, NULL);
}
