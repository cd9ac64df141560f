/* SPDX-License-Identifier: MIT */
/* When the blocks of a trace's tables ran: each table is of one epoch of its process's modules. */
#include "trace/trail/path.h"

#include <errno.h>
#include <stdlib.h>

/* By process, and there by their epochs; those without one are first. */
static int by_epoch(const void *one, const void *other)
{
	const struct trail_space *const *a = one, *const *b = other;
	uint32_t of_a = (*a)->table.era.from, of_b = (*b)->table.era.from;

	if ((*a)->process != (*b)->process)
		return (*a)->process < (*b)->process ? -1 : 1;
	if ((*a)->is_told != (*b)->is_told)
		return (*a)->is_told ? 1 : -1;
	return of_a < of_b ? -1 : of_a > of_b;
}

/* As the writer had it. */
static int module_take(struct module_epochs *epochs, const struct fact_module *from)
{
	struct control_module module = { .base = from->base, .gone = from->gone != 0 };
	const char *id = from->build_id ? from->build_id : "";

	for (; id[0] && id[1] && module.build_id_bytes < sizeof(module.build_id); id += 2) {
		char digits[3] = { id[0], id[1], '\0' };

		module.build_id[module.build_id_bytes++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return module_epochs_take(epochs, &module, from->path);
}

int trails_epochs_read(struct module_epochs *epochs, const struct fact_process *process)
{
	int err = 0;

	for (size_t i = 0; i < process->module_count && !err; i++)
		err = module_take(epochs, &process->modules[i]);
	return err;
}

/* The eras of a process's spaces; of one without a trail:space: all the time. */
static int eras_take(struct trail_space **spaces, size_t count, const struct fact_process *process)
{
	struct module_epochs epochs = { 0 };
	int err = trails_epochs_read(&epochs, process);
	uint32_t number = 0;

	for (size_t i = 0; i < count && !err; i++) {
		struct trail_era *era = &spaces[i]->table.era;

		number += i && by_epoch(&spaces[i - 1], &spaces[i]);
		era->number = number;
		era->to = spaces[i]->is_told ? module_epochs_end(&epochs, era->from) : 0;
	}
	module_epochs_release(&epochs);
	return err;
}

int trails_eras_take(struct trails *trails, const struct trace_reader *reader)
{
	size_t count = trails->space_count, next;
	struct trail_space **sorted = calloc(count + 1, sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		trails->spaces[i].table.number = (uint32_t)i;
		sorted[i] = &trails->spaces[i];
	}
	qsort(sorted, count, sizeof(struct trail_space *), by_epoch);
	for (size_t i = 0; i < count && !err; i = next) {
		next = i;
		while (next < count && sorted[next]->process == sorted[i]->process)
			next++;
		err = eras_take(sorted + i, next - i, &reader->meta.processes[sorted[i]->process]);
	}
	free(sorted);
	return err;
}
