/* SPDX-License-Identifier: MIT */
#include "inside/control/handler_objects.h"

#include "abi/control.h"
#include "abi/handler.h"
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/control/message.h"
#include "inside/control/session_table.h"
#include "inside/marker/handlers.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/event_store.h"

#include <waymark/error.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define OBJECTS_MAX 16
#define LOAD_MS 8000 /* the loader may be in use, and the tool waits for 15 s */
#define FILE_NAME "waymark-handlers"
#define STACK_BYTES ((size_t)1024 * 1024) /* constructors run on it */
#define WORDS_BYTES 512

enum object_state { OBJECT_NONE = 0, OBJECT_FILED, OBJECT_LOADING, OBJECT_LOADED, OBJECT_CLOSING };

static struct object {
	enum object_state state;
	uint64_t key;
	unsigned int filer; /* the lane of the session that sends its file */
	int stays;	    /* in the child of a fork: the program may be in it */
	int fd;		    /* of its file, until it is loaded */
	uint32_t lanes;	    /* sessions that have it, a bit each */
	void *handle;	    /* dlopen(3)'s */
	uintptr_t start;    /* what was added to its addresses */
	/* of the thread that loads or closes it */
	uint32_t is_done; /* set last */
	char words[WORDS_BYTES];
} objects[OBJECTS_MAX];

/* What a session waits for. */
static struct asked {
	struct object *object; /* that is being loaded for it; NULL: none */
	uint32_t serial;       /* of HANDLERS, UNLOAD; 0: no answer is due */
	int is_unload;
	uint64_t until_ns;
	int error; /* of every request from here on */
	struct control_handlers about;
	struct control_handler *handlers;
} asked[SESSIONS_MAX];

static struct object *object_find(uint64_t key)
{
	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		if (o->state && o->key == key)
			return o;
	return NULL;
}

static void object_drop(struct object *object)
{
	if (object->fd >= 0)
		kernel_close(object->fd);
	*object = (struct object){ .fd = -1 };
}

/* ---- its file ---- */

static struct object *object_new(uint64_t key, unsigned int lane)
{
	struct object *made = objects;

	while (made < objects + OBJECTS_MAX && made->state)
		made++;
	if (made == objects + OBJECTS_MAX)
		return NULL;
	*made = (struct object){ .state = OBJECT_FILED, .key = key, .filer = lane };
	made->fd = (int)kernel_call(SYS_memfd_create, (long)FILE_NAME, MFD_CLOEXEC, 0, 0);
	if (made->fd >= 0)
		return made;
	object_drop(made);
	return NULL;
}

int objects_file(unsigned int lane, const char *body, size_t bytes)
{
	struct control_handler_file piece;
	struct object *object;
	size_t written = 0;

	if (bytes < sizeof piece)
		return -WM_E_PROTOCOL;
	memcpy(&piece, body, sizeof piece);
	body += sizeof piece;
	bytes -= sizeof piece;
	if (piece.offset > HANDLER_FILE_BYTES_MAX)
		return -WM_E_PROTOCOL;
	object = object_find(piece.key);
	if (object && object->state != OBJECT_FILED)
		return 0; /* it is there: of another session, or a parent's */
	object = object ? object : object_new(piece.key, lane);
	if (!object)
		return -ENOMEM;
	while (written < bytes) {
		ssize_t got = kernel_pwrite(object->fd, body + written, bytes - written,
					    (off_t)(piece.offset + written));

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		written += (size_t)got;
	}
	return 0;
}

/* ---- the thread that loads and closes ---- */

static void job_begin(void)
{
	reentrancy_guard_at = REENTRANCY_GUARD_FOR_GOOD; /* what the loader does is no event */
	kernel_call(SYS_prctl, PR_SET_NAME, (long)"waymark-loader", (long)CONTROL_NAMED, 0);
}

static void job_end(struct object *object)
{
	__atomic_store_n(&object->is_done, 1, __ATOMIC_RELEASE);
	control_wake();
}

/* It has the control thread's table of descriptors. A path that no other object has: glibc knows an
 * object by it. */
static void *load_main(void *data)
{
	struct object *object = data;
	struct link_map *map;
	char path[64];

	job_begin();
	snprintf(path, sizeof path, "/proc/self/task/%d/fd/%d", kernel_gettid(), object->fd);
	object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object->handle || dlinfo(object->handle, RTLD_DI_LINKMAP, &map)) {
		const char *words = dlerror(), *behind = words ? strstr(words, path) : NULL;

		/* the path says nothing to anyone */
		if (behind == words && behind && !strncmp(behind + strlen(path), ": ", 2))
			words += strlen(path) + 2;
		snprintf(object->words, sizeof object->words, "%s", words ? words : "");
	} else {
		object->start = map->l_addr;
	}
	job_end(object);
	return NULL;
}

static void *close_main(void *data)
{
	struct object *object = data;

	job_begin();
	dlclose(object->handle);
	job_end(object);
	return NULL;
}

/* In this state until job_end(). 0 or an error: the state is as before. */
static int job_start(struct object *object, enum object_state state, void *(*main)(void *))
{
	enum object_state before = object->state;
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	object->state = state;
	object->is_done = 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&thread, &attributes, main, object);
	pthread_attr_destroy(&attributes);
	if (error)
		object->state = before;
	else
		pthread_detach(thread);
	return -error;
}

int objects_are_busy(void)
{
	for (const struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		if (o->state == OBJECT_LOADING || o->state == OBJECT_CLOSING)
			return 1;
	return 0;
}

/* ---- sessions ---- */

static void answer(unsigned int lane, int error)
{
	struct control_done done = { .error = error };
	uint32_t serial = asked[lane].serial;

	asked[lane].serial = 0;
	asked[lane].is_unload = 0;
	if (serial && session_fd(lane) >= 0)
		message_send(session_fd(lane), CONTROL_DONE, serial, &done, sizeof done, NULL, 0,
			     -1, NULL);
}

static void asked_forget(unsigned int lane)
{
	struct asked *ask = &asked[lane];

	if (ask->handlers)
		heap_free(ask->handlers, ask->about.count * sizeof *ask->handlers);
	ask->handlers = NULL;
	ask->object = NULL;
}

/* The loaded object is the file that the tool has read, and has these handlers. */
static int handlers_take(unsigned int lane, const struct object *object)
{
	const struct asked *ask = &asked[lane];
	int error = lock_take(&agent_lock, SESSION_LOCK_MS);

	if (error)
		return error;
	for (uint32_t i = 0; i < ask->about.count && !error; i++) {
		const struct control_handler *about = &ask->handlers[i];
		const struct wm_handler *record = (const void *)(object->start + about->at);

		if (record->magic != WM__HANDLER_MAGIC || record->kind != about->kind ||
		    memcmp(record->types, about->types, sizeof about->types) != 0)
			error = -WM_E_HANDLER;
		else
			error = handlers_add(lane, about, record->call);
	}
	if (error)
		handlers_clear(lane);
	lock_release(&agent_lock);
	return error;
}

/* The object is loaded, or can't be. Returns what to answer. */
static int load_end(unsigned int lane)
{
	struct object *object = asked[lane].object;
	int error = object->handle ? handlers_take(lane, object) : -WM_E_HANDLER;

	if (!error)
		object->lanes |= 1u << lane;
	if (!object->handle && session_fd(lane) >= 0)
		message_send(session_fd(lane), CONTROL_HANDLER_FAILED, 0, object->words,
			     strlen(object->words) + 1, NULL, 0, -1, NULL);
	asked[lane].error = error;
	asked_forget(lane);
	return error;
}

static int handlers_copy(struct asked *ask, const char *body, size_t bytes)
{
	if (bytes < sizeof ask->about)
		return -WM_E_PROTOCOL;
	memcpy(&ask->about, body, sizeof ask->about);
	body += sizeof ask->about;
	bytes -= sizeof ask->about;
	if (!ask->about.count || ask->about.count > HANDLERS_MAX ||
	    bytes != ask->about.count * sizeof *ask->handlers)
		return -WM_E_PROTOCOL;
	ask->handlers = heap_copy(body, bytes);
	if (!ask->handlers)
		return -ENOMEM;
	for (uint32_t i = 0; i < ask->about.count; i++)
		if (!memchr(ask->handlers[i].name, 0, sizeof ask->handlers[i].name))
			return -WM_E_PROTOCOL;
	return 0;
}

int objects_load(unsigned int lane, uint32_t serial, const char *body, size_t bytes)
{
	struct asked *ask = &asked[lane];
	struct object *object;
	int error;

	if (ask->object || ask->serial)
		return -EALREADY;
	error = handlers_copy(ask, body, bytes);
	object = error ? NULL : object_find(ask->about.key);
	if (!error && !object)
		error = -WM_E_PROTOCOL;
	if (!error && object->state == OBJECT_FILED)
		error = job_start(object, OBJECT_LOADING, load_main);
	if (error) {
		asked_forget(lane);
		return error;
	}
	ask->object = object;
	if (object->state == OBJECT_LOADED)
		return load_end(lane);
	ask->serial = serial;
	ask->until_ns = lock_now_ns() + LOAD_MS * UINT64_C(1000000);
	return 1;
}

int objects_are_awaited(unsigned int lane)
{
	return asked[lane].object != NULL || asked[lane].is_unload;
}

int objects_error(unsigned int lane)
{
	return asked[lane].error;
}

int objects_unload(unsigned int lane, uint32_t serial)
{
	if (asked[lane].object || asked[lane].serial)
		return -EALREADY;
	asked[lane].serial = serial;
	asked[lane].is_unload = 1;
	asked[lane].until_ns = lock_now_ns() + UNLOAD_WAIT_MS * UINT64_C(1000000);
	objects_serve();
	return 1;
}

/* Its thread has ended: LOADING -> LOADED, or gone; CLOSING -> gone. */
static void object_serve(struct object *object)
{
	DEBUG_TRACE("agent/handlers", "object %x: state %d done, loaded %d", object->key,
		    object->state, object->handle != NULL);
	if (object->state == OBJECT_CLOSING) {
		object_drop(object);
		return;
	}
	kernel_close(object->fd);
	object->fd = -1;
	object->state = OBJECT_LOADED;
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		if (asked[lane].object == object)
			answer(lane, load_end(lane));
	if (!object->handle)
		object_drop(object);
}

static void close_unused(void)
{
	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		if (o->state == OBJECT_LOADED && !o->lanes && !o->stays)
			job_start(o, OBJECT_CLOSING, close_main);
}

static int lane_release(unsigned int lane)
{
	int error = lock_take(&agent_lock, SESSION_LOCK_MS);

	if (error)
		return error; /* its handlers stay, in no plan, and their object with them */
	handlers_clear(lane);
	lock_release(&agent_lock);
	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		o->lanes &= ~(1u << lane);
	close_unused();
	return 0;
}

static void unload_serve(unsigned int lane, uint64_t now_ns)
{
	int is_over = !store_quiesce(0, 0) && !lane_release(lane);

	if (!is_over && now_ns < asked[lane].until_ns)
		return;
	/* closing takes a moment, and the session waits for it no longer than for its threads */
	if (objects_are_busy() && now_ns < asked[lane].until_ns)
		return;
	answer(lane, is_over && !objects_are_busy() ? 0 : -ETIMEDOUT);
}

void objects_serve(void)
{
	uint64_t now_ns = lock_now_ns();

	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		if (__atomic_load_n(&o->is_done, __ATOMIC_ACQUIRE) &&
		    (o->state == OBJECT_LOADING || o->state == OBJECT_CLOSING))
			object_serve(o);
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (asked[lane].is_unload) {
			unload_serve(lane, now_ns);
		} else if (asked[lane].object && now_ns >= asked[lane].until_ns) {
			asked[lane].error = -ETIMEDOUT;
			asked_forget(lane);
			answer(lane, -ETIMEDOUT);
		}
	}
	close_unused();
}

void objects_release(unsigned int lane)
{
	lane_release(lane);
	asked_forget(lane);
	asked[lane] = (struct asked){ 0 };
	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++)
		if (o->state == OBJECT_FILED && o->filer == lane)
			object_drop(o);
}

void objects_forked(uint32_t lanes)
{
	for (struct object *o = objects; o < objects + OBJECTS_MAX; o++) {
		o->lanes &= lanes;
		o->stays |= !o->lanes; /* a handler forks, say */
		/* its thread is not in the child: what it was at stays as it is, of no use */
		if (o->state == OBJECT_LOADING || o->state == OBJECT_CLOSING ||
		    o->state == OBJECT_FILED)
			*o = (struct object){ .fd = -1 };
	}
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		asked[lane] = (struct asked){ 0 };
		if (!(lanes & 1u << lane))
			handlers_clear(lane);
	}
}
