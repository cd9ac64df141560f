/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/perf.h"

#include "record/trail/testing/steps.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* Also where asserts are left out. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

struct sample_perf sample_perf;

static int perf_open(struct perf_event_attr *attr, pid_t tid)
{
	sample_perf.attr = *attr;
	if (!tid)
		return 1000;
	if (sample_perf.refuses_open && sample_perf.opened)
		return sample_perf.refuses_open;
	sample_perf.opened++;
	return 1000;
}

static int perf_map(void **memory, size_t bytes, int fd, size_t offset)
{
	MUST(fd == 1000);
	if (sample_perf.refuses_map)
		return sample_perf.refuses_map;
	if (sample_perf.most_bytes && bytes > sample_perf.most_bytes)
		return -EPERM;
	MUST(posix_memalign(memory, PAGE, bytes) == 0);
	memset(*memory, 0, bytes);
	sample_perf.mapped++;
	if (offset) {
		MUST(offset == sample_perf.page->aux_offset);
		MUST(bytes == sample_perf.page->aux_size);
		memcpy(*memory, sample_perf.area,
		       bytes < SAMPLE_AREA_BYTES ? bytes : SAMPLE_AREA_BYTES);
		sample_perf.page->aux_head = sample_perf.area_head;
		return 0;
	}
	sample_perf.page = *memory;
	sample_perf.page->cap_user_time = 1;
	sample_perf.page->time_mult = 1u << 10;
	sample_perf.page->time_shift = 10;
	if (sample_perf.opened == 1) { /* the first thread's */
		MUST(sample_perf.record_bytes <= bytes - PAGE);
		memcpy((uint8_t *)*memory + PAGE, sample_perf.records, sample_perf.record_bytes);
		sample_perf.page->data_head = sample_perf.record_bytes;
	}
	return 0;
}

static void perf_unmap(void *memory, size_t bytes)
{
	(void)bytes;
	sample_perf.unmapped++;
	free(memory);
}

static int perf_control(int fd, unsigned long request)
{
	(void)fd;
	sample_perf.enabled += request == PERF_EVENT_IOC_ENABLE;
	sample_perf.disabled += request == PERF_EVENT_IOC_DISABLE;
	return 0;
}

static void perf_close(int fd)
{
	(void)fd;
	sample_perf.closed++;
}

const struct perf_calls sample_perf_calls = { perf_open, perf_map, perf_unmap, perf_control,
					      perf_close };

void sample_perf_record(uint32_t type, uint16_t misc, const void *body, size_t bytes)
{
	struct perf_event_header header = { type, misc, (uint16_t)(sizeof(header) + bytes) };

	MUST(sample_perf.record_bytes + header.size <= sizeof(sample_perf.records));
	memcpy(sample_perf.records + sample_perf.record_bytes, &header, sizeof(header));
	memcpy(sample_perf.records + sample_perf.record_bytes + sizeof(header), body, bytes);
	sample_perf.record_bytes += header.size;
}

void sample_perf_area(uint64_t offset, uint64_t bytes, uint64_t flags)
{
	sample_perf_record(PERF_RECORD_AUX, 0, (uint64_t[]){ offset, bytes, flags, 0, 1 }, 40);
}

void sample_perf_switch(int is_out, uint64_t time)
{
	sample_perf_record(PERF_RECORD_SWITCH, is_out ? PERF_RECORD_MISC_SWITCH_OUT : 0,
			   (uint64_t[]){ 0, time }, 16);
}

void sample_machine_put(const char *root, const char *path, const char *text)
{
	sample_folder_put(root, path, text, strlen(text));
}

struct pt_item *sample_stepped(char *const argv[], size_t *count)
{
	struct trace_reader *reader;
	struct trails trails;
	struct pt_item *items;
	char folder[64];

	sample_steps(folder, argv);
	MUST(!trace_reader_open(&reader, folder));
	MUST(!trails_read(&trails, reader));
	items = pt_items_of(&trails.paths[0], count);
	for (size_t i = 0; i < *count; i++)
		items[i].code = NULL; /* goes with the trails */
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
	return items;
}
