/* SPDX-License-Identifier: MIT */
#include "target/expression/library.h"

#include "target/expression/member.h"
#include "target/expression/scope.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WAYS_MAX 4
#define PATH_BYTES 128

/* Members on the way to the pointer, and to its limit, behind slashes: first libstdc++'s. */
struct way {
	const char *pointer, *limit;
};

/* A class's name ends at its template's arguments. */
static const struct kind {
	const char *name;
	unsigned int uses;
	enum library_limit limit;
	struct way ways[WAYS_MAX];
} kinds[] = {
	{ "std::unique_ptr<",
	  LIBRARY_POINTER | LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_t/_M_t/std::_Head_base<0...>::_M_head_impl", NULL },
	    { "_M_t/std::_Head_base<0...>::_M_head_impl", NULL },
	    { "__ptr_/__value_", NULL },
	    { "__ptr_", NULL } } },
	{ "std::shared_ptr<",
	  LIBRARY_POINTER | LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_ptr", NULL }, { "__ptr_", NULL } } },
	{ "std::vector<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_END,
	  { { "_M_impl/_M_start", "_M_impl/_M_finish" }, { "__begin_", "__end_" } } },
	{ "std::array<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_elems", NULL }, { "__elems_", NULL } } },
	{ "std::basic_string<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_COUNT,
	  { { "_M_dataplus/_M_p", "_M_string_length" } } },
};

/* "std::__1::vector<int>" -> "std::vector<int>": versions and modes have namespaces. */
static int library_name(const struct declared *record, char *name)
{
	char path[SCOPE_PATH_MAX];
	struct scope scope = { .level = 0 };
	Dwarf_Die die = record->die;
	const char *rest = path + strlen("std::");

	if (scope_of(&die, &scope) || !scope_path(&scope, 0, path) ||
	    strncmp(path, "std::", strlen("std::")))
		return 0;
	if (!strncmp(rest, "__", 2) && strstr(rest, "::"))
		rest = strstr(rest, "::") + 2;
	snprintf(name, SCOPE_PATH_MAX, "std::%s", rest);
	return 1;
}

/* Go the members of a path. 0; -ENOENT: they are not there. */
static int path_go(const struct declared *record, const char *path, const struct code_file *file,
		   uint64_t *offset, struct declared *type)
{
	char detail[WATCH_DETAIL_MAX], name[PATH_BYTES];
	struct member_found member;

	*offset = 0;
	*type = *record;
	for (;;) {
		size_t bytes = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)bytes, path);
		if (!declared_is_record(type) || member_find(type, name, file, &member, detail) ||
		    member.hop_count || member.member.is_static || member.member.bits)
			return -ENOENT;
		*offset += member.member.offset;
		*type = member.member.type;
		if (declared_peel(type, file))
			return -ENOENT;
		if (!path[bytes])
			return 0;
		path += bytes + 1;
	}
}

static int way_go(const struct declared *record, const struct kind *kind, const struct way *way,
		  const struct code_file *file, struct library_found *found)
{
	struct declared limit;
	int err = path_go(record, way->pointer, file, &found->offset, &found->type);

	if (err)
		return err;
	if (declared_tag(&found->type) != DW_TAG_pointer_type &&
	    declared_tag(&found->type) != DW_TAG_array_type)
		return -ENOENT;
	found->limit = kind->limit;
	return way->limit ? path_go(record, way->limit, file, &found->limit_offset, &limit) : 0;
}

int library_find(const struct declared *record, unsigned int use, const struct code_file *file,
		 struct library_found *found)
{
	char name[SCOPE_PATH_MAX];

	*found = (struct library_found){ .type.language = record->language };
	if (!library_name(record, name))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i];

		if (!(kind->uses & use) || strncmp(name, kind->name, strlen(kind->name)))
			continue;
		for (size_t j = 0; j < WAYS_MAX && kind->ways[j].pointer; j++)
			if (!way_go(record, kind, &kind->ways[j], file, found))
				return 0;
		return -EOPNOTSUPP;
	}
	return -ENOENT;
}
