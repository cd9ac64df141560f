/* SPDX-License-Identifier: MIT */
/*
 * A batch writes bytes of sites and no others. The kernel (uprobes) and debuggers put breakpoints
 * into the same code at any moment. Writing back a byte between two sites could undo such a
 * breakpoint, or bring back one that its owner has just removed, which would kill the program.
 *
 * A write costs about 1.3 us whatever its length, so sites that follow each other directly share
 * one. Between their first bytes are only displacements. No instruction begins there, so no other
 * tool writes there, and each gets the value that the check has just found.
 *
 * Other ways that were measured: docs/design/arming.md.
 */
#include "inside/patch/batch.h"

#include "abi/site.h"
#include "base/debug_trace.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>

#define PAGE_BYTES 4096u

static int sync_state; /* 0 not tried, 1 SYNC_CORE, -1 not there */

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
		kernel_interrupt_cores(); /* else the one-byte store has to do by itself */
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

	while (end < count && !sites[0].portable && !sites[end].portable &&
	       sites[end].address + SITE_BYTES - sites[0].address <= PAGE_BYTES)
		end++;
	return end;
}

static void check_window(const struct text *text, struct batch_site *sites, size_t count)
{
	uintptr_t start = sites[0].address;
	size_t bytes = sites[count - 1].address + SITE_BYTES - start;
	uint8_t buffer[PAGE_BYTES];
	int alone = count < 2 || text_read(text, start, buffer, bytes);

	for (size_t i = 0; i < count; i++) {
		if (alone)
			check_alone(text, &sites[i]);
		else
			check_site(&sites[i], buffer + (sites[i].address - start));
	}
}

size_t batch_check(const struct text *text, struct batch_site *sites, size_t count, int arm)
{
	size_t refused = 0;

	for (size_t start = 0, length; start < count; start += length) {
		length = window(sites + start, count - start);
		check_window(text, sites + start, length);
	}
	for (size_t i = 0; i < count; i++) {
		if (!sites[i].error && !sites[i].portable && text_way() == WAY_NONE &&
		    sites[i].found[0] != (arm ? SITE_ARMED : SITE_DORMANT))
			sites[i].error = -WM_E_NO_TEXT_WRITE;
		refused += sites[i].error != 0;
	}
	return refused;
}

/* How many sites from here on can share a write: they are adjacent, and in one page. */
static size_t run_of(const struct batch_site *sites, size_t count)
{
	size_t end = 1;

	while (end < count && !sites[end].portable && !sites[end].error &&
	       sites[end].address == sites[end - 1].address + SITE_BYTES &&
	       sites[end].address / PAGE_BYTES == sites[0].address / PAGE_BYTES &&
	       sites[end].prot == sites[0].prot)
		end++;
	return end;
}

static int store_run(const struct text *text, const struct batch_site *sites, size_t count, int arm)
{
	uint8_t buffer[PAGE_BYTES];
	uint32_t flag = (uint32_t)arm;

	if (sites[0].portable)
		return text_write_data(text, sites[0].address, &flag, sizeof flag);
	for (size_t i = 0; i < count; i++)
		batch_bytes(&sites[i], arm, buffer + i * SITE_BYTES);
	/* of the last site the first byte alone */
	return text_write_code(text, sites[0].address, buffer, (count - 1) * SITE_BYTES + 1,
			       sites[0].prot);
}

/*
 * Look again, then write. The caller's check may be old by now: what has come since (a uprobe, a
 * debugger's breakpoint) stays, and its site gets -WM_E_SITE_CHANGED.
 */
static int store_window(const struct text *text, struct batch_site *sites, size_t count, int arm,
			size_t *done)
{
	int error;

	check_window(text, sites, count);
	for (size_t i = 0, run; i < count; i += run, *done += run) {
		run = 1;
		if (sites[i].error == -WM_E_SITE_CHANGED)
			continue;
		if (sites[i].error)
			return sites[i].error;
		run = sites[i].portable ? 1 : run_of(sites + i, count - i);
		error = store_run(text, sites + i, run, arm);
		if (error)
			return error;
	}
	return 0;
}

/* Returns 0 or an error; *done counts the sites before it. */
static int store_all(const struct text *text, struct batch_site *sites, size_t count, int arm,
		     size_t *done)
{
	int error = 0;

	for (*done = 0; !error && *done < count;)
		error = store_window(text, sites + *done, window(sites + *done, count - *done), arm,
				     done);
	return error;
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
	DEBUG_TRACE("agent/batch", "arm %d: %d sites from %x, %d written: error %d", arm, count,
		    sites[0].address, done, error);
	return error;
}
