/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/sink.h"

#include "base/array.h"
#include "trace/trail/event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sample_sink *of(struct trail_sink *sink)
{
	return (struct sample_sink *)sink;
}

static struct sample_item *add(struct sample_sink *sink, uint64_t ticks)
{
	if (array_grow(&sink->items, &sink->room, sink->count + 1, sizeof(*sink->items)))
		abort();
	if (sink->count && ticks < sink->items[sink->count - 1].ticks && !sink->wrong)
		sink->wrong = "time goes back";
	sink->items[sink->count] = (struct sample_item){ .ticks = ticks };
	return &sink->items[sink->count++];
}

static int begin(struct trail_sink *sink, pid_t pid)
{
	(void)sink;
	(void)pid;
	return 0;
}

static int module(struct trail_sink *sink, const struct control_module *one, const char *path)
{
	(void)sink;
	(void)one;
	(void)path;
	return 0;
}

static int thread_begin(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			const char *comm, enum trail_origin origin, uint64_t ticks)
{
	(void)tid;
	(void)comm;
	(void)origin;
	(void)ticks;
	*thread = of(sink)->has_no_room ? NULL : (struct sink_thread *)sink;
	return *thread ? 0 : -ENOMEM;
}

static int block(struct trail_sink *sink, struct sink_thread *thread,
		 const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct sample_sink *mine = of(sink);
	uint8_t run[sizeof(*entry) + TRAIL_BLOCK_BYTES_MAX], id_bytes[4];
	struct trail_entry put = *entry;
	uint32_t id = mine->table.count;
	struct trail_checked good;

	(void)thread;
	add(mine, ticks)->entry = *entry;
	put.flags = code ? TRAIL_HAS_CODE : 0;
	memcpy(run, &put, sizeof(put));
	if (code)
		memcpy(run + sizeof(put), code, entry->bytes);
	if (trail_table_define(&mine->table, id, run, sizeof(put) + (code ? entry->bytes : 0)) &&
	    !mine->wrong)
		mine->wrong = "a block that can't be";
	memcpy(id_bytes, &id, 4);
	/* the table may have moved what the check keeps, which was the last */
	if (mine->check.before)
		mine->check.before = trail_table_block(&mine->table, id - 1);
	if (!mine->wrong)
		mine->wrong = trail_check_blocks(&mine->check, &mine->table, id_bytes, 1, &good);
	return mine->fails_at && mine->count >= (size_t)mine->fails_at ? -EIO : 0;
}

static int event(struct trail_sink *sink, struct sink_thread *thread,
		 const struct trail_between *between, uint64_t ticks)
{
	struct sample_sink *mine = of(sink);

	(void)thread;
	add(mine, ticks)->between = *between;
	if (!mine->wrong)
		mine->wrong = trail_check_event(&mine->check, between);
	return mine->fails_at && mine->count >= (size_t)mine->fails_at ? -EIO : 0;
}

static int thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	(void)thread;
	(void)ticks;
	of(sink)->is_over = 1;
	return 0;
}

static const struct trail_sink_calls calls = {
	.begin = begin,
	.module = module,
	.thread_begin = thread_begin,
	.block = block,
	.event = event,
	.thread_end = thread_end,
};

void sample_sink_init(struct sample_sink *sink)
{
	*sink = (struct sample_sink){ .sink.calls = &calls };
}

void sample_sink_release(struct sample_sink *sink)
{
	trail_table_release(&sink->table);
	free(sink->items);
	*sink = (struct sample_sink){ 0 };
}

const char *sample_sink_text(const struct sample_sink *sink)
{
	static const char *const kinds[] = { "fall",   "jump",	 "branch",  "call", "jump *",
					     "call *", "return", "syscall", "stop", "far" };
	static char text[1 << 16];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sink->count && used + 128 < sizeof(text); i++) {
		const struct sample_item *item = &sink->items[i];

		if (item->entry.instructions)
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%" PRIx64 "+%x/%u %s\n", item->entry.start,
						 item->entry.bytes, item->entry.instructions,
						 kinds[item->entry.kind]);
		else
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%s@%" PRIx64 " %" PRIu64 "\n",
						 trail_shapes[item->between.event].name,
						 item->between.at, item->between.values[0]);
	}
	return text;
}

size_t sample_sink_blocks(const struct sample_sink *sink)
{
	size_t blocks = 0;

	for (size_t i = 0; i < sink->count; i++)
		blocks += sink->items[i].entry.instructions != 0;
	return blocks;
}

int sample_sink_events(const struct sample_sink *sink, enum trail_event kind)
{
	int count = 0;

	for (size_t i = 0; i < sink->count; i++)
		count += !sink->items[i].entry.instructions && sink->items[i].between.event == kind;
	return count;
}

static size_t sample_read(struct codes *source, uint64_t address, uint8_t *bytes, size_t most)
{
	struct sample_codes *codes = (struct sample_codes *)source;
	size_t count;

	if (address < codes->base || address >= codes->base + codes->count)
		return 0;
	count = codes->count - (address - codes->base);
	if (count > most)
		count = most;
	memcpy(bytes, codes->bytes + (address - codes->base), count);
	return count;
}

void sample_codes_init(struct sample_codes *codes, uint64_t base, const uint8_t *bytes,
		       size_t count)
{
	*codes = (struct sample_codes){
		.codes.read = sample_read, .base = base, .bytes = bytes, .count = count
	};
}
