/* SPDX-License-Identifier: MIT */
#include "record/perf/perf_record.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The rest of a record. */
struct rest {
	const uint8_t *at;
	size_t left;
	int is_short;
};

static uint64_t number_read(struct rest *rest, size_t bytes)
{
	uint64_t value = 0;

	if (rest->left < bytes) {
		rest->is_short = 1;
		return 0;
	}
	memcpy(&value, rest->at, bytes);
	rest->at += bytes;
	rest->left -= bytes;
	return value;
}

static void skip(struct rest *rest, size_t bytes)
{
	if (rest->left < bytes) {
		rest->is_short = 1;
		bytes = rest->left;
	}
	rest->at += bytes;
	rest->left -= bytes;
}

/* struct sample_id, at the end of every record. */
static void take_id(struct perf_record *record, struct rest *rest, uint64_t sample)
{
	static const uint64_t parts = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
				      PERF_SAMPLE_IDENTIFIER;
	size_t bytes = 8 * (size_t)__builtin_popcountll(sample & parts);
	struct rest id;

	if (rest->left < bytes) {
		rest->is_short = 1;
		return;
	}
	rest->left -= bytes;
	id = (struct rest){ rest->at + rest->left, bytes, 0 };
	if (sample & PERF_SAMPLE_TID) {
		record->pid = (uint32_t)number_read(&id, 4);
		record->tid = (uint32_t)number_read(&id, 4);
	}
	if (sample & PERF_SAMPLE_TIME)
		record->time = number_read(&id, 8);
	if (sample & PERF_SAMPLE_CPU)
		record->cpu = (uint32_t)number_read(&id, 8);
	if (sample & PERF_SAMPLE_IDENTIFIER)
		record->id = number_read(&id, 8);
}

static void take_text(struct perf_record *record, struct rest *rest)
{
	if (!rest->left || !memchr(rest->at, '\0', rest->left))
		rest->is_short = 1;
	else
		record->text = (const char *)rest->at;
}

static void take_mapping(struct perf_record *record, struct rest *rest)
{
	skip(rest, 8); /* pid, tid: the id has them */
	record->start = number_read(rest, 8);
	record->bytes = number_read(rest, 8);
	record->offset = number_read(rest, 8);
	if (record->type == PERF_RECORD_MMAP2) {
		unsigned int major = (unsigned int)number_read(rest, 4); /* or the id's bytes */

		if (record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
			record->build_id = rest->at;
			record->build_id_bytes = (uint8_t)(major & 0xff);
			skip(rest, PERF_BUILD_ID_BYTES);
		} else {
			record->device = makedev(major, (unsigned int)number_read(rest, 4));
			record->inode = number_read(rest, 8);
			skip(rest, 8); /* the inode's generation */
		}
		record->prot = (uint32_t)number_read(rest, 4);
		skip(rest, 4); /* flags */
	}
	take_text(record, rest);
}

static void take_relation(struct perf_record *record, struct rest *rest)
{
	uint32_t pid = (uint32_t)number_read(rest, 4);

	record->pid = pid;
	record->ppid = (uint32_t)number_read(rest, 4);
	record->tid = (uint32_t)number_read(rest, 4);
	record->ptid = (uint32_t)number_read(rest, 4);
	record->time = number_read(rest, 8);
}

static void take_fields(struct perf_record *record, struct rest *rest)
{
	switch (record->type) {
	case PERF_RECORD_LOST:
		skip(rest, 8);
		record->lost = number_read(rest, 8);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		record->lost = number_read(rest, 8);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		record->time = number_read(rest, 8);
		record->id = number_read(rest, 8);
		break;
	case PERF_RECORD_AUX:
		record->aux_offset = number_read(rest, 8);
		record->aux_bytes = number_read(rest, 8);
		record->aux_flags = number_read(rest, 8);
		break;
	case PERF_RECORD_COMM:
	case PERF_RECORD_ITRACE_START:
		record->pid = (uint32_t)number_read(rest, 4);
		record->tid = (uint32_t)number_read(rest, 4);
		if (record->type == PERF_RECORD_COMM)
			take_text(record, rest);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		take_relation(record, rest);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		take_mapping(record, rest);
		break;
	default:
		break;
	}
}

int perf_record_read(struct perf_record *record, const struct perf_event_header *header,
		     uint64_t sample)
{
	struct rest rest = { (const uint8_t *)(header + 1), header->size - sizeof(*header), 0 };

	*record = (struct perf_record){ .type = header->type, .misc = header->misc };
	take_id(record, &rest, sample);
	take_fields(record, &rest);
	return rest.is_short ? -EBADMSG : 0;
}
