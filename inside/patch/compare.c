/* SPDX-License-Identifier: MIT */
/*
 * The kernel copies the bytes to a memfd, many at once, and we read them back: 42 ns each. By
 * process_vm_readv(2) it is 550 ns, by a pipe 180 ns; docs/design/arming.md.
 */
#include "inside/patch/compare.h"

#include "base/kernel.h"
#include "inside/runtime/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define GROUP 512u

int compare_add(struct compare_list *list, struct compare_item **item)
{
	size_t room = list->room ? list->room * 2 : 256;

	if (list->count == list->room) {
		struct compare_item *more = heap_alloc(room * sizeof *more);

		if (!more)
			return -ENOMEM;
		if (list->items)
			memcpy(more, list->items, list->count * sizeof *more);
		heap_free(list->items, list->room * sizeof *more);
		list->items = more;
		list->room = room;
	}
	*item = &list->items[list->count++];
	**item = (struct compare_item){ 0 };
	return 0;
}

/* Read the bytes of each item of a group. Returns how many leading items are mapped, or -errno. */
static long gather(int fd, const struct compare_item *items, size_t count, uint8_t *bytes)
{
	struct iovec parts[GROUP];
	size_t total = 0, whole = 0;
	ssize_t got;

	/* the lines come side by side, and a prefetch of what is not there is nothing */
	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch((const void *)items[i].address);
		parts[i] = (struct iovec){ (void *)items[i].address, items[i].bytes };
	}
	got = kernel_result(syscall_raw6(SYS_pwritev, fd, (long)parts, (long)count, 0, 0, 0));
	if (got < 0 && errno != EFAULT)
		return -errno;
	while (whole < count && got > 0 && total + items[whole].bytes <= (size_t)got)
		total += items[whole++].bytes;
	if (total && kernel_pread(fd, bytes, total, 0) != (ssize_t)total)
		return -EIO;
	return (long)whole;
}

static void judge(const struct compare_item *item, const uint8_t *found,
		  void (*each)(void *owner, const uint8_t *found, int is_same, void *data),
		  void *data)
{
	each(item->owner, found, found && !memcmp(found, item->expected, item->bytes), data);
}

void compare_run(const struct text *text, const struct compare_list *list,
		 void (*each)(void *owner, const uint8_t *found, int is_same, void *data),
		 void *data)
{
	static uint8_t bytes[GROUP * COMPARE_BYTES_MAX];
	int fd = list->count ? kernel_memfd_create("waymark-scratch") : -1;

	for (size_t at = 0; at < list->count;) {
		const struct compare_item *items = list->items + at;
		size_t left = list->count - at, from = 0, count = left < GROUP ? left : GROUP;
		long got = fd < 0 ? 0 : gather(fd, items, count, bytes);

		if (got < 0) {
			kernel_close(fd);
			fd = -1;
			got = 0;
		}
		for (long i = 0; i < got; from += items[i++].bytes)
			judge(&items[i], bytes + from, each, data);
		at += (size_t)got;
		if ((size_t)got == count)
			continue;
		/* this one is gone; or there was no memory, or a limit on files (RLIMIT_FSIZE) */
		items = list->items + at++;
		judge(items, text_read(text, items->address, bytes, items->bytes) ? NULL : bytes,
		      each, data);
	}
	if (fd >= 0)
		kernel_close(fd);
}
