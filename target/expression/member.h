/* SPDX-License-Identifier: MIT */
/*
 * A member by its name, by the rules of C++: a class goes before its base classes, also before a
 * virtual one that another way leads to. A name that several other base classes have is ambiguous.
 * `Base::name` looks only in that base class, `name` alone in all. The template's arguments of Base
 * may be cut: "Base<0...>::name".
 */
#ifndef TARGET_EXPRESSION_MEMBER_H
#define TARGET_EXPRESSION_MEMBER_H

#include "target/expression/declared.h"
#include "target/expression/trouble.h"

#define MEMBER_HOPS_MAX 8 /* virtual base classes of virtual base classes */

/* Into a virtual base class: from the object at `offset`, by the word `below` its virtual table. */
struct member_hop {
	uint64_t offset, below;
	struct declared base;
};

struct member_found {
	struct declared_member member; /* its offset counts from the last hop, or from the record */
	struct member_hop hops[MEMBER_HOPS_MAX];
	unsigned int hop_count;
	struct declared record; /* the class that has it */
};

/*
 * Find it in a peeled record, in its anonymous members and base classes too. 0; -ENOENT;
 * -WM_E_NO_DEBUG: not found, and debug information lacks one of the classes;
 * -WM_E_WATCH_SEVERAL: detail[WATCH_DETAIL_MAX] lists the candidates; -WM_E_WATCH_SPLIT: the
 * description of a virtual base class is unknown, or the classes nest too deep;
 * -WM_E_WATCH_DAMAGED.
 */
int member_find(const struct declared *record, const char *name, const struct code_file *file,
		struct member_found *found, char *detail);

/*
 * Likewise, find a base class, or the record itself: member.offset is its place, from the last hop,
 * and nothing else of `member` is set.
 */
int member_base(const struct declared *record, const struct declared *base,
		const struct code_file *file, struct member_found *found, char *detail);

#endif
