/* SPDX-License-Identifier: MIT */
#include "inside/marker/handlers.h"

#include "inside/marker/marker.h"
#include "inside/runtime/heap.h"

#include <errno.h>
#include <string.h>

struct handler {
	struct handler *next; /* the one before it */
	unsigned int number;
	struct control_handler about;
	plan_handler call;
};

static struct handler *handlers[SESSIONS_MAX]; /* by lane, the last first */

int handlers_add(unsigned int lane, const struct control_handler *about, plan_handler call)
{
	unsigned int number = handlers[lane] ? handlers[lane]->number + 1 : 1;
	struct handler *made;

	if (number > HANDLERS_MAX)
		return -E2BIG;
	made = heap_alloc(sizeof *made);
	if (!made)
		return -ENOMEM;
	*made = (struct handler){ handlers[lane], number, *about, call };
	handlers[lane] = made;
	return 0;
}

void handlers_clear(unsigned int lane)
{
	while (handlers[lane]) {
		struct handler *gone = handlers[lane];

		handlers[lane] = gone->next;
		heap_free(gone, sizeof *gone);
	}
}

static const struct handler *handler_at(unsigned int lane, unsigned int number)
{
	const struct handler *handler = handlers[lane];

	while (handler && handler->number != number)
		handler = handler->next;
	return handler;
}

int handlers_has(unsigned int lane, unsigned int number, const uint8_t types[16])
{
	const struct handler *handler = handler_at(lane, number);

	return !number || (handler && !memcmp(handler->about.types, types, 16));
}

/* Whether it is for this marker, whatever its types. An inline block is an event, too. */
static int is_named(const struct handler *handler, const struct variant *variant)
{
	char kind = variant->kind == 'i' ? 'm' : variant->kind;

	return handler->about.kind == kind && !strcmp(handler->about.name, variant->name);
}

int handlers_fit(const struct variant *variant, unsigned int lane)
{
	for (const struct handler *h = variant->name ? handlers[lane] : NULL; h; h = h->next)
		if (is_named(h, variant) && memcmp(h->about.types, variant->types, 16) != 0)
			return 0;
	return 1;
}

plan_handler handlers_find(const struct variant *variant, unsigned int lane, uint8_t *number)
{
	const struct handler *handler = handlers[lane];

	if (!variant->name)
		handler = handler_at(lane, variant->handler);
	while (variant->name && handler && !is_named(handler, variant))
		handler = handler->next;
	*number = handler ? (uint8_t)handler->number : 0;
	return handler ? handler->call : NULL;
}
