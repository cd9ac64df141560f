/* SPDX-License-Identifier: MIT */
#include "target/expression/part_name.h"

#include "target/expression/declared.h"
#include "target/expression/type.h"
#include "target/expression/variable.h"

#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

/* A part of the variable, and the place in it that is searched for. */
struct search {
	struct declared type;
	uint64_t offset, bytes;
	char *text;
	size_t room, used;
};

/* Go on in a part; `length` bytes of its name were written. 1, or 0 if they had no room. */
static int enter(struct search *search, const struct declared *type, uint64_t offset, int length)
{
	if (length < 0 || (size_t)length >= search->room - search->used)
		return 0;
	search->used += (size_t)length;
	search->type = *type;
	search->offset -= offset;
	return 1;
}

static int member_visit(const struct declared_member *member, void *data)
{
	struct search *search = data;
	uint64_t bytes;

	if (member->is_static || member->is_virtual || member->bits ||
	    member->offset > search->offset || declared_bytes(&member->type, &bytes) ||
	    search->offset - member->offset >= bytes)
		return 0;
	/* C and C++ name no base class and no anonymous member */
	if (member->is_base || !member->name)
		return enter(search, &member->type, member->offset, 0);
	return enter(search, &member->type, member->offset,
		     snprintf(search->text + search->used, search->room - search->used, ".%s",
			      member->name));
}

static int element_enter(struct search *search)
{
	uint64_t bytes, count, index;
	struct declared element;
	int64_t lowest;

	if (declared_is_by_columns(&search->type) ||
	    declared_element(&search->type, &element, &bytes, &lowest, &count) || !bytes)
		return 0;
	index = search->offset / bytes;
	if (index >= count)
		return 0;
	return enter(search, &element, index * bytes,
		     snprintf(search->text + search->used, search->room - search->used,
			      "[%" PRId64 "]", (int64_t)((uint64_t)lowest + index)));
}

static int part_find(struct search *search, const struct code_file *file)
{
	for (unsigned int depth = 0; depth < WATCH_TYPE_DEPTH_MAX; depth++) {
		uint64_t bytes;
		int entered = 0;

		if (declared_peel(&search->type, file) || declared_bytes(&search->type, &bytes) ||
		    search->offset >= bytes)
			return -ENOENT;
		if (search->used && !search->offset && bytes == search->bytes)
			return 0;
		if (declared_is_record(&search->type)) {
			const struct declared record = search->type;

			entered = declared_members(&record, member_visit, search) == 1;
		} else if (declared_tag(&search->type) == DW_TAG_array_type) {
			entered = element_enter(search);
		}
		if (!entered)
			return -ENOENT;
	}
	return -ENOENT;
}

int expression_part_name(struct code_file *file, const char *variable, uint64_t address,
			 uint64_t bytes, char *text, size_t room)
{
	struct search search = { .bytes = bytes, .text = text, .room = room };
	char spec[SCOPE_PATH_MAX + sizeof("watch:")];
	struct variable found;
	struct watch_expr expr;
	int err;

	snprintf(spec, sizeof(spec), "watch:%s", variable);
	err = expression_parse(&expr, spec, NULL);
	if (!err && (expr.step_count || !expr.name))
		err = -ENOENT;
	if (!err)
		err = variable_find(&found, file, &expr, NULL);
	expression_release(&expr);
	if (!err && (found.base != WATCH_IN_MODULE || address < found.start))
		err = -ENOENT;
	if (!err)
		err = declared_of(&found.die, &search.type);
	if (err)
		return err == -ENOMEM ? err : -ENOENT;
	search.offset = address - found.start;
	return part_find(&search, file);
}
