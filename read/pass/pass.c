/* SPDX-License-Identifier: MIT */
#include "read/pass/pass.h"

#include <errno.h>
#include <stdlib.h>

struct pass {
	struct trace_reader *reader;
	/* of each process: a bit for each observer, by class index; behind them, of all classes */
	uint8_t **wanted;
};

static uint32_t class_count(const struct trace_reader *reader, uint32_t process)
{
	const struct trace_schema *schema = reader->meta.processes[process].schema;

	return schema ? schema->count : 0;
}

static int is_wanted(const struct trace_stream *stream, void *data)
{
	const struct pass *pass = data;

	return pass->wanted[stream->process][class_count(pass->reader, stream->process)] != 0;
}

static int classes_ask(struct pass *pass, struct pass_observer *const *observers,
		       unsigned int count)
{
	const struct facts *meta = &pass->reader->meta;

	pass->wanted = calloc((size_t)meta->process_count + 1, sizeof(*pass->wanted));
	for (uint32_t i = 0; pass->wanted && i < meta->process_count; i++) {
		uint32_t classes = class_count(pass->reader, i);
		uint8_t *wanted = pass->wanted[i] = calloc(classes + 1u, 1);

		if (!wanted)
			return -ENOMEM;
		for (uint32_t j = 0; j < classes; j++) {
			for (unsigned int k = 0; k < count; k++)
				if (observers[k]->wants(observers[k], i,
							meta->processes[i].schema->classes[j]))
					wanted[j] |= (uint8_t)(1u << k);
			wanted[classes] |= wanted[j];
		}
	}
	return pass->wanted ? 0 : -ENOMEM;
}

static int events_read(struct pass *pass, struct pass_observer *const *observers,
		       unsigned int count)
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, pass->reader, 0, is_wanted, pass);

	if (err)
		return err;
	while (!err && (err = merge_next(merge, &event)) > 0) {
		uint32_t process = event.stream->process;
		uint8_t by = pass->wanted[process][pass_is_gap(&event)
							   ? class_count(pass->reader, process)
							   : event.class->index];

		err = 0;
		for (unsigned int i = 0; i < count && !err; i++)
			if (by & 1u << i)
				err = observers[i]->take(observers[i], &event);
	}
	merge_close(merge);
	return err;
}

int pass_read(struct trace_reader *reader, struct pass_observer *const *observers,
	      unsigned int count)
{
	struct pass pass = { .reader = reader };
	int err = classes_ask(&pass, observers, count);

	if (!err)
		err = events_read(&pass, observers, count);
	for (uint32_t i = 0; pass.wanted && i < reader->meta.process_count; i++)
		free(pass.wanted[i]);
	free(pass.wanted);
	return err;
}
