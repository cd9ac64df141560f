/* SPDX-License-Identifier: MIT */
#include "trace/testing/packets.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void sample_begin(struct sample *sample, uint64_t ticks)
{
	sample->bytes = 0;
	sample->events = 0;
	sample->ticks = ticks;
	sample->head.begin_ticks = ticks;
}

void sample_put(struct sample *sample, const void *bytes, size_t count)
{
	while (sample->room - sample->bytes < count) {
		sample->room = sample->room ? sample->room * 2 : 4096;
		sample->content = realloc(sample->content, sample->room);
		if (!sample->content)
			abort();
	}
	if (count)
		memcpy(sample->content + sample->bytes, bytes, count);
	sample->bytes += count;
}

void sample_u8(struct sample *sample, uint8_t value)
{
	sample_put(sample, &value, sizeof(value));
}

void sample_u32(struct sample *sample, uint32_t value)
{
	sample_put(sample, &value, sizeof(value));
}

void sample_u64(struct sample *sample, uint64_t value)
{
	sample_put(sample, &value, sizeof(value));
}

void sample_event(struct sample *sample, uint32_t id, uint64_t ticks, int extended)
{
	if (extended || id >= EVENT_EXTENDED || (ticks - sample->ticks) >> EVENT_TICK_BITS) {
		sample_u8(sample, EVENT_EXTENDED);
		sample_u32(sample, id);
		sample_u64(sample, ticks);
	} else {
		sample_u32(sample, id | (uint32_t)ticks << 5);
	}
	sample->ticks = ticks;
	sample->events++;
}

void sample_string(struct sample *sample, const char *string)
{
	sample_u8(sample, string ? FIELD_WHOLE : FIELD_NULL);
	if (!string)
		string = "";
	sample_put(sample, string, strlen(string) + 1);
}

void sample_run(struct sample *sample, const void *bytes, uint32_t count)
{
	sample_u8(sample, FIELD_WHOLE);
	sample_u32(sample, count);
	sample_put(sample, bytes, count);
}

int sample_write(struct sample *sample, struct trace_writer *writer, int process)
{
	int err;

	sample->head.end_ticks = sample->ticks;
	err = trace_packet_write(writer, process, &sample->head, sample->content, sample->bytes,
				 sample->events);
	if (!err)
		sample->head.seq++;
	return err;
}

void sample_release(struct sample *sample)
{
	free(sample->content);
	*sample = (struct sample){ 0 };
}

uint64_t sample_random(uint64_t *seed)
{
	uint64_t word = *seed += 0x9e3779b97f4a7c15ull;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
	return word ^ (word >> 31);
}

void sample_folder(char path[64])
{
	strcpy(path, "/tmp/waymark-trace-XXXXXX");
	if (!mkdtemp(path))
		abort();
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
	(void)about;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

void sample_folder_remove(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void sample_folder_put(const char *folder, const char *path, const void *content, size_t bytes)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", folder, path);
	for (char *at = full + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	file = fopen(full, "we");
	if (!file || fwrite(content, 1, bytes, file) != bytes || fclose(file))
		abort();
}
