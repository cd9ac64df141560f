/* SPDX-License-Identifier: MIT */
#include "read/locks/call_roles.h"

#include <errno.h>
#include <stdlib.h>

int call_roles_make(struct call_roles *roles, const struct facts *facts, call_role_of role_of)
{
	*roles = (struct call_roles){ .all = calloc((size_t)facts->process_count + 1,
						    sizeof(*roles->all)),
				      .count = facts->process_count };
	if (!roles->all)
		return -ENOMEM;
	for (uint32_t i = 0; i < roles->count; i++) {
		const struct trace_schema *schema = facts->processes[i].schema;

		if (!schema || !schema->count)
			continue;
		roles->all[i] = calloc(schema->count, sizeof(struct call_role));
		if (!roles->all[i])
			return -ENOMEM;
		for (uint32_t j = 0; j < schema->count; j++)
			roles->all[i][j] = role_of(schema->classes[j]);
	}
	return 0;
}

void call_roles_release(struct call_roles *roles)
{
	for (uint32_t i = 0; roles->all && i < roles->count; i++)
		free(roles->all[i]);
	free(roles->all);
	*roles = (struct call_roles){ 0 };
}

const struct call_role *call_role_find(const struct call_roles *roles, uint32_t process,
				       const struct trace_class *class)
{
	const struct call_role *all = roles->all[process];

	return class && all && all[class->index].kind ? &all[class->index] : NULL;
}

int call_roles_have(const struct facts *facts, call_role_of role_of, uint8_t kind)
{
	for (uint32_t i = 0; i < facts->process_count; i++) {
		const struct trace_schema *schema = facts->processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count; j++) {
			uint8_t found = role_of(schema->classes[j]).kind;

			if (found && (!kind || found == kind))
				return 1;
		}
	}
	return 0;
}
