/* SPDX-License-Identifier: MIT */
/* Trails that were read from a trace's folder. */
#include "record/trail/trail.h"

#include <errno.h>
#include <stdlib.h>
#include <waymark/error.h>

static int read_all(struct recorded *recorded)
{
	int err = trails_read(&recorded->trails, recorded->reader);

	if (err)
		return err;
	recorded->paths = calloc(recorded->trails.path_count + 1, sizeof(*recorded->paths));
	if (!recorded->paths)
		return -ENOMEM;
	while (!err && recorded->count < recorded->trails.path_count) {
		err = snapshot_path_init(&recorded->paths[recorded->count],
					 &recorded->trails.paths[recorded->count]);
		recorded->count++;
	}
	return err;
}

int trail_recorded_open(struct wm_trail *trail, const char *dir)
{
	struct recorded *recorded = trail->recorded = calloc(1, sizeof(*recorded));
	int err;

	if (!recorded)
		return -ENOMEM;
	trail->state = WM_TRAIL_STATE_RECORDED;
	err = trace_reader_open(&recorded->reader, dir);
	if (!err)
		err = read_all(recorded);
	if (!err && !recorded->count)
		err = -WM_E_NOT_RECORDED;
	if (err)
		return trail_fail(trail, err, "%s", dir);
	trail->pid = (pid_t)recorded->trails.paths[0].stream->pid;
	/* what could be read is there all the same */
	if (recorded->reader->damages_ever)
		trail_fail(trail, 0, "%s: %s", dir, recorded->reader->damages[0].what);
	return 0;
}

void trail_recorded_close(struct recorded *recorded)
{
	if (!recorded)
		return;
	for (size_t i = 0; i < recorded->count; i++)
		snapshot_path_release(&recorded->paths[i]);
	free(recorded->paths);
	if (recorded->reader)
		trails_release(&recorded->trails, recorded->reader);
	trace_reader_close(recorded->reader);
	free(recorded);
}

const struct path_index *recorded_path(const struct wm_trail *trail, pid_t tid)
{
	for (size_t i = 0; i < trail->recorded->count; i++)
		if (!tid || trail->recorded->paths[i].path->stream->tid == (uint32_t)tid)
			return &trail->recorded->paths[i];
	return NULL;
}
