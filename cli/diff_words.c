/* SPDX-License-Identifier: MIT */
/*
 * What waymark diff says of places, events and harmless differences: the same in text and in JSON.
 */
#include "cli/diff.h"

#include "cli/trail_words.h"

#include <inttypes.h>
#include <stdio.h>

void diff_place(struct diff *diff, const struct diff_thread *thread,
		const struct diff_address *address, struct diff_place *place)
{
	struct image *image = trail_view_image(&diff->views[address->side],
					       thread->pair.of[address->side]);

	*place = (struct diff_place){ .address = address->address };
	image = image ? image_in(image, address->table) : NULL;
	if (!image)
		return;
	place->place = image_place(image, address->address);
	image_line(image, address->address, &place->line);
}

static void event_words(const struct trail_between *event, char *text, size_t bytes)
{
	int64_t number = (int64_t)event->values[0], second = (int64_t)event->values[1];
	char name[48];

	switch ((enum trail_event)event->event) {
	case TRAIL_SIGNAL:
		snprintf(text, bytes, "gets %s", words_signal(event->values[0], name));
		break;
	case TRAIL_SYSCALLED:
		snprintf(text, bytes, "comes back from %s with %" PRId64,
			 words_call(event->values[0], name), second);
		break;
	case TRAIL_FORK:
		snprintf(text, bytes, "makes a thread or process, %" PRId64, number);
		break;
	case TRAIL_EXEC:
		snprintf(text, bytes, "executes another program");
		break;
	case TRAIL_END:
		if (number == TRAIL_KILLED)
			snprintf(text, bytes, "is killed by %s",
				 words_signal(event->values[1], name));
		else if (number == TRAIL_ENDED_WITH)
			snprintf(text, bytes, "ends with the process, by %s",
				 words_signal(event->values[1], name));
		else if (number == TRAIL_EXITED)
			snprintf(text, bytes, "exits with %" PRId64, second);
		else
			snprintf(text, bytes, "is recorded no longer");
		break;
	case TRAIL_LOST:
	case TRAIL_GAP:
		snprintf(text, bytes, "%s",
			 event->event == TRAIL_GAP && number == TRAIL_GAP_ELSEWHERE
				 ? "runs unrecorded in other modules"
				 : "has blocks missing");
		break;
	default:
		snprintf(text, bytes, "%s the processor",
			 event->event == TRAIL_DEPART ? "loses" : "gets");
	}
}

int diff_next(const struct diff_thread *thread, int side, struct diff_address *address, char *text,
	      size_t bytes)
{
	struct trail_cursor cursor = thread->divergence.at[side];
	struct trail_item item;

	if (!trail_next(&cursor, &item)) {
		snprintf(text, bytes, "is recorded no longer");
		return 0;
	}
	if (!item.block) {
		event_words(item.between, text, bytes);
		return 0;
	}
	*address = (struct diff_address){ side, item.block->start + thread->divergence.from[side],
					  item.table };
	snprintf(text, bytes, "continues at");
	return 1;
}

void diff_harmless(const struct divergence_harmless *harmless, char *text, size_t bytes)
{
	char name[48];

	switch (harmless->kind) {
	case HARMLESS_LIBRARY:
		snprintf(text, bytes, "another way in %s%s%s",
			 harmless->function ? harmless->function : "",
			 harmless->function ? " of " : "",
			 harmless->module ? harmless->module : "code of no module");
		break;
	case HARMLESS_SIGNAL:
		snprintf(text, bytes, "%s", words_signal((uint64_t)harmless->number, name));
		break;
	case HARMLESS_RESULT:
		snprintf(text, bytes, "another result of %s",
			 words_call((uint64_t)harmless->number, name));
		break;
	case HARMLESS_AGAIN:
		snprintf(text, bytes, "a system call broken off, and made again");
		break;
	}
}
