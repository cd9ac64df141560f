/* SPDX-License-Identifier: MIT */
/*
 * Writing costs about 1.2 us a call, so 10,000 sites one by one take 12 ms. Neighbours are therefore
 * written together, in one call, where that is as sound as one byte at a time:
 *
 *   - Sites that follow each other directly. What lies between two first bytes is the displacement of
 *     the former, which the check has just compared with the table. No instruction begins there, so
 *     nobody else writes there; and a byte that is stored with the value it has is not seen to change.
 *   - In a batch of BATCH_LARGE or more, also across up to GAP_BYTES of other code. It is read right
 *     before it is written back, some two microseconds apart; if more than WINDOW_NS went by (we were
 *     put off the CPU, or stopped), it is read again. Other sessions are kept out by the agent's lock.
 *     Who else may write there:
 *       a debugger  Where one is attached, no gap is written. One that comes meanwhile stops this
 *                   thread before it plants anything; and what it finds when it goes on is then older
 *                   than WINDOW_NS, but for the few instructions between that look and the call.
 *       a uprobe    The kernel's, on this very page, in those two microseconds: it would be lost, and
 *                   its owner would miss its hits.
 *     A breakpoint that we would bring back to life after its owner took it away could kill the
 *     program, so a gap that has one (CC anywhere) is never written back.
 *
 * Longer gaps, and other ways that were measured: docs/design/arming.md.
 */
#define _GNU_SOURCE
#include "agent/patch/batch.h"

#include "abi/site.h"
#include "agent/control/lock.h"
#include "agent/patch/tracer.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define BATCH_LARGE 256
#define GAP_BYTES 128u
#define WINDOW_NS 10000u
#define WINDOW_TRIES 3
#define BREAKPOINT 0xcc

static int sync_state; /* 0 not tried, 1 SYNC_CORE, -1 not there */

/*
 * Without membarrier (before Linux 4.16, or filtered): changing the protection of a page that was
 * touched makes the kernel interrupt every core that runs this process to flush its TLB, and the
 * return from the interrupt serializes. Processors that broadcast such flushes need no interrupt;
 * there the one-byte store stands alone.
 */
static void sync_by_interrupt(void)
{
	volatile char *page = kernel_map(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, 0);

	if (page == MAP_FAILED)
		return;
	*page = 1;
	kernel_mprotect((void *)page, PAGE_BYTES, PROT_READ);
	kernel_munmap((void *)page, PAGE_BYTES);
}

void batch_register(void)
{
	if (!sync_state)
		sync_state = kernel_call(SYS_membarrier,
					 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0,
					 0)
				     ? -1
				     : 1;
}

void batch_sync_cores(void)
{
	batch_register();
	if (sync_state < 0 ||
	    kernel_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0))
		sync_by_interrupt();
}

void batch_bytes(const struct batch_site *site, int arm, uint8_t bytes[5])
{
	bytes[0] = arm ? SITE_ARMED : SITE_DORMANT;
	memcpy(bytes + 1, &site->displacement, 4);
}

static void check_site(struct batch_site *site, const uint8_t *found)
{
	uint8_t dormant[5], armed[5];

	batch_bytes(site, 0, dormant);
	batch_bytes(site, 1, armed);
	site->error = 0;
	memcpy(site->found, found, 5);
	/* the other form is no error: it is what we are about to write */
	if (memcmp(found, dormant, 5) && memcmp(found, armed, 5))
		site->error = -WM_E_SITE_CHANGED;
}

static void check_alone(const struct text *text, struct batch_site *site)
{
	uint8_t found[5];

	if (text_read(text, site->address, found, site->portable ? 4 : 5))
		site->error = -EFAULT;
	else if (site->portable)
		site->error = 0;
	else
		check_site(site, found);
}

/* How many sites from here on lie within a page's length, so that one read serves them. */
static size_t window(const struct batch_site *sites, size_t count)
{
	size_t end = 1;

	while (end < count && !sites[end].portable &&
	       sites[end].address + SITE_BYTES - sites[0].address <= PAGE_BYTES)
		end++;
	return end;
}

size_t batch_check(const struct text *text, struct batch_site *sites, size_t count, int arm)
{
	uint8_t buffer[PAGE_BYTES];
	size_t refused = 0;

	for (size_t start = 0, end; start < count; start = end) {
		size_t bytes;

		end = start + (sites[start].portable ? 1 : window(sites + start, count - start));
		bytes = sites[end - 1].address + SITE_BYTES - sites[start].address;
		if (end - start < 2 || text_read(text, sites[start].address, buffer, bytes)) {
			for (size_t i = start; i < end; i++)
				check_alone(text, &sites[i]);
			continue;
		}
		for (size_t i = start; i < end; i++)
			check_site(&sites[i], buffer + (sites[i].address - sites[start].address));
	}
	for (size_t i = 0; i < count; i++) {
		if (!sites[i].error && !sites[i].portable && text_way() == WAY_NONE &&
		    sites[i].found[0] != (arm ? SITE_ARMED : SITE_DORMANT))
			sites[i].error = -WM_E_NO_TEXT_WRITE;
		refused += sites[i].error != 0;
	}
	return refused;
}

static int store_alone(const struct text *text, const struct batch_site *site, int arm)
{
	uint8_t byte = arm ? SITE_ARMED : SITE_DORMANT;
	uint32_t flag = (uint32_t)arm;

	if (site->portable)
		return text_write_data(text, site->address, &flag, sizeof flag);
	return text_write_code(text, site->address, &byte, 1, site->prot);
}

/* How many sites from here on may be written at once; *foreign: code of others lies between. */
static size_t run_of(const struct batch_site *sites, size_t count, uintptr_t gap_bytes,
		     int *foreign)
{
	size_t end = 1;

	*foreign = 0;
	while (end < count && !sites[end].portable) {
		uintptr_t gap = sites[end].address - sites[end - 1].address - SITE_BYTES;

		if (sites[end].address / PAGE_BYTES != sites[0].address / PAGE_BYTES ||
		    sites[end].prot != sites[0].prot || gap > gap_bytes)
			break;
		*foreign |= gap != 0;
		end++;
	}
	return end;
}

/*
 * Put the sites' bytes into the buffer, which begins at the first; with `foreign` it has what was read
 * there. Returns how many may be written: up to a gap with a breakpoint, or to a site that something
 * else has been at since the check.
 */
static size_t fill_run(unsigned char *buffer, const struct batch_site *sites, size_t count, int arm,
		       int foreign)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char *at = buffer + (sites[i].address - sites[0].address);
		size_t gap, length = i + 1 < count ? SITE_BYTES : 1;
		uint8_t want[SITE_BYTES];

		batch_bytes(&sites[i], arm, want);
		if (foreign && length > 1 && memcmp(at + 1, want + 1, SITE_BYTES - 1))
			return i;
		memcpy(at, want, length);
		gap = i + 1 < count ? sites[i + 1].address - sites[i].address - SITE_BYTES : 0;
		if (gap && memchr(at + SITE_BYTES, BREAKPOINT, gap))
			return i + 1;
	}
	return count;
}

/*
 * Write as many sites of a run as can be in one call. Returns how many those were (0: not even the
 * first can be written this way), or a negative error.
 */
static long store_run(const struct text *text, const struct batch_site *sites, size_t count,
		      int arm, int foreign)
{
	uintptr_t start = sites[0].address;
	unsigned char buffer[PAGE_BYTES];
	int error;

	for (unsigned int tries = 0; tries < WINDOW_TRIES; tries++) {
		uint64_t read_ns = foreign ? lock_now_ns() : 0;
		size_t may;

		if (foreign && text_read(text, start, buffer, sites[count - 1].address + 1 - start))
			return -EFAULT;
		may = fill_run(buffer, sites, count, arm, foreign);
		if (!may)
			return 0;
		/* a site alone has nothing of others' in it */
		if (may > 1 && foreign && lock_now_ns() - read_ns > WINDOW_NS)
			continue;
		error = text_write_code(text, start, buffer, sites[may - 1].address + 1 - start,
					sites[0].prot);
		return error ? error : (long)may;
	}
	return 0;
}

/* Returns 0 or an error; *done counts the sites that were written. */
static int store_all(const struct text *text, const struct batch_site *sites, size_t count, int arm,
		     size_t *done)
{
	uintptr_t gap_bytes = count >= BATCH_LARGE && !tracer_is_there() ? GAP_BYTES : 0;

	for (*done = 0; *done < count;) {
		const struct batch_site *at = sites + *done;
		int foreign = 0;
		size_t run = at->portable ? 1 : run_of(at, count - *done, gap_bytes, &foreign);
		long stored = run > 1 ? store_run(text, at, run, arm, foreign) : 0;

		if (!stored) {
			stored = store_alone(text, at, arm);
			stored = stored ? stored : 1;
		}
		if (stored < 0)
			return (int)stored;
		*done += (size_t)stored;
	}
	return 0;
}

int batch_commit(const struct text *text, struct batch_site *sites, size_t count, int arm)
{
	size_t done, undone;
	int error;

	if (!count)
		return 0;
	batch_sync_cores();				   /* 3 */
	error = store_all(text, sites, count, arm, &done); /* 4 */
	if (error)
		store_all(text, sites, done, !arm, &undone); /* nothing is half armed */
	batch_sync_cores();				     /* 5 */
	return error;
}
