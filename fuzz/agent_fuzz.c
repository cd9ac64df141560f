/* SPDX-License-Identifier: MIT */
/*
 * A session against an agent that speaks the protocol (abi/control.h) to its end. An input says how
 * the session is used and where the agent deviates from valid answers: in messages, sizes, numbers,
 * descriptors, the store. Where an input has ended, the agent is valid. With -DLIBFUZZER this is a
 * libFuzzer target. Else it runs by itself:
 *
 *	agent_fuzz [SECONDS [SEED]]	inputs of random bytes (default 3 s, seed 1)
 *	agent_fuzz FILE...		these inputs
 */
#define _GNU_SOURCE
#include "abi/control.h"
#include "abi/watch.h"
#include "base/socketdir.h"
#include "fuzz/commands.h"
#include "fuzz/consumers.h"
#include "fuzz/folder.h"
#include "fuzz/run.h"
#include "record/session/testing/store.h"
#include "trace/packet_walk.h"
#include "trace/testing/packets.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
#include <waymark/session.h>

#define INPUT_MAX 4096u
#define BODY_MAX 600u
#define SLOTS 8u
#define PAGES 128u
#define TEXT "mj\nnet\nrx\nsample.c\n7\n"

/* Shared with the agent's process: the input, and how much of it was used. */
static struct {
	uint8_t bytes[INPUT_MAX];
	uint32_t count, at;
	uint64_t watched;
} * input;

static struct sample_store store;
static int has_store, fd_to_tool;

static uint8_t take(void)
{
	return input->at < input->count ? input->bytes[input->at++] : 0;
}

static uint64_t take_number(void)
{
	static const uint64_t odd[] = {
		0,	   1,	       2,	   3,	       0x7f,	   0xff,
		0xffff,	   0x7ffffff,  0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
		INT64_MAX, 1ull << 63, ~0ull,	   ~0ull - 7,
	};
	uint8_t kind = take();
	uint64_t number = 0;

	if (kind < 128)
		return odd[kind % 16];
	for (unsigned int i = 0; i < 1 + kind % 8u; i++)
		number = number << 8 | take();
	return number;
}

/* Write a few numbers anywhere in bytes[]. */
static void damage(void *bytes, size_t count)
{
	for (unsigned int n = take() % 8u; n && count; n--) {
		size_t at = take_number() % count, width = 1u << take() % 4u;
		uint64_t number = take_number();

		memcpy((char *)bytes + at, &number, width < count - at ? width : count - at);
	}
}

/* ---- the agent ---- */

/* A descriptor of the kind that the input wants. */
static int some_fd(void)
{
	static const char *const paths[] = { "/dev/zero", "/", "/proc/self/mem", "/dev/null" };
	uint8_t kind = take() % 16;
	int ends[2], fd;

	if (kind < 4)
		return open(paths[kind], O_RDONLY | O_CLOEXEC);
	if (kind == 4 && !pipe2(ends, O_CLOEXEC)) {
		close(ends[1]);
		return ends[0];
	}
	fd = memfd_create("odd", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (ftruncate(fd, (off_t)(take_number() % (1u << 20))))
		_exit(4);
	if (kind % 2)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	return fd;
}

/*
 * Send, and close the descriptor. A deviation changes the body, its length, the head or the
 * descriptor.
 */
static void say(uint16_t type, uint32_t serial, const void *body, size_t bytes, int fd)
{
	char copy[BODY_MAX] = "";
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, serial, (uint32_t)bytes };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec parts[] = { { &head, sizeof(head) }, { copy, bytes } };
	struct msghdr packet = { .msg_iov = parts, .msg_iovlen = 2 };
	uint8_t how = take();

	memcpy(copy, body, bytes);
	if (how % 16 == 9) /* rare: it takes a second */
		damage(copy, bytes);
	if (how & 2)
		head.bytes = (uint32_t)(parts[1].iov_len = take_number() % BODY_MAX);
	if (how % 32 == 4)
		damage(&head, sizeof(head));
	if (how % 32 == 8) {
		if (fd >= 0)
			close(fd);
		fd = some_fd();
	}
	if (fd >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	(void)!sendmsg(fd_to_tool, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	if (how == 0xee)
		shutdown(fd_to_tool, SHUT_RDWR);
	if (how == 0xef)
		_exit(0);
}

static void say_text(uint16_t type, uint32_t serial, const void *body, size_t bytes)
{
	static const char *const texts[] = {
		TEXT,
		"md\nnet\nrx\nf\n1\n",
		"/dev/zero",
		"mj\nnet\n\033[2J\nf\n1\na, b, c",
		"bj\n\n\n",
		"",
		"/proc/self/exe",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"ej\nnet\nrx\na\n4294967296\nx",
	};
	char all[BODY_MAX];
	const char *text = texts[take() % (sizeof(texts) / sizeof(texts[0]))];

	memcpy(all, body, bytes);
	strcpy(all + bytes, text);
	say(type, serial, all, bytes + strlen(text) + 1, -1);
}

static void say_done(uint32_t serial)
{
	struct control_done done = { .markers = 1, .sites = 1 };

	if (take() % 16 == 1)
		done.error = (int32_t)(0 - (uint32_t)take_number());
	say(CONTROL_DONE, serial, &done, sizeof(done), -1);
}

static void say_table(void)
{
	struct control_watch_table about = { .bytes = sizeof(struct watch_table) };
	int fd = memfd_create("table", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	struct watch_table *table;

	if (fd < 0 || ftruncate(fd, sizeof(*table)))
		_exit(4);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		_exit(4);
	damage(table, sizeof(*table));
	munmap(table, sizeof(*table));
	say(CONTROL_WATCH_TABLE, 0, &about, sizeof(about), fd);
}

/* What consumers look for by name; `types` are as many as FIELDS names. */
static const struct declared {
	const char *text;
	uint8_t types[16];
} declared[] = {
	{ TEXT, { 0 } },
	{ "md\nwatch\nwide\nf\n1\nip, old, new, how, offset, caller1",
	  { WM_TYPE_PTR, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U16, WM_TYPE_U32, WM_TYPE_PTR } },
	{ "bj\ndb\nquery\nf\n1\nsql, blob, n", { WM_TYPE_STR, WM_TYPE_BYTES, WM_TYPE_I8 } },
	{ "ej\ndb\nquery\nf\n2\naddresses, real", { WM_TYPE_ADDRESSES, WM_TYPE_F64 } },
	{ "md\nwatch\nplain\nf\n1\nip, old, new, how",
	  { WM_TYPE_PTR, WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U16 } },
};

#define DECLARED (sizeof(declared) / sizeof(declared[0]))

/* Those events, by their numbers from 1. An input may change a type. */
static void say_declared(void)
{
	for (uint32_t i = 0; i < DECLARED; i++) {
		char all[sizeof(struct control_event) + 128];
		struct control_event event = { .id = i + 1 };

		memcpy(event.types, declared[i].types, sizeof(event.types));
		if (take() % 16 == 1)
			event.types[take() % 16u] = take() % 20u;
		memcpy(all, &event, sizeof(event));
		strcpy(all + sizeof(event), declared[i].text);
		say(CONTROL_EVENT, 0, all, sizeof(event) + strlen(declared[i].text) + 1, -1);
	}
}

/* One of those events, behind what the page has. Numbers are few: events belong together. */
static void write_event(struct wm_page *page, uint64_t ticks, uint64_t *seed)
{
	static const char *const strings[] = { "", "select", "abc\033[2J", "\xff\xfe" };
	uint32_t number = (uint32_t)(run_random(seed) % DECLARED);
	uint8_t bytes[512];
	size_t count = 0;

	for (const uint8_t *type = declared[number].types; *type; type++) {
		const char *string = strings[run_random(seed) % 4];
		uint64_t any = run_random(seed), value = any % 8 ? 8 * (any >> 8) % 48 : any;
		uint32_t run = any % 16 ? (uint32_t)(any >> 8) % 4 : (uint32_t)(any >> 8);

		bytes[count++] = any >> 40 & 3; /* the state, of those that have one */
		if (*type == WM_TYPE_STR) {
			strcpy((char *)bytes + count, string);
			count += strlen(string) + 1;
		} else if (*type == WM_TYPE_BYTES || *type == WM_TYPE_ADDRESSES) {
			memcpy(bytes + count, &run, sizeof(run));
			count += sizeof(run) + (run < 4 ? run * schema_element_bytes(*type) : 24);
		} else {
			count--;
			memcpy(bytes + count, &value, sizeof(value));
			count += (size_t)schema_type_bytes(*type);
		}
	}
	sample_store_event(&store, page, number + 1, ticks);
	memcpy(store.data + (size_t)(page - store.pages) * STORE_PAGE_BYTES + page->commit, bytes,
	       count);
	page->word += PAGE_WORD(count, 0);
}

/* Two messages in one, in the packet. */
static void say_bundle(void)
{
	struct {
		struct control_bundle bundle;
		struct {
			struct wm_message head;
			char body[48];
		} parts[2];
	} all = { .bundle = { .bytes = 128, .count = 2 } };

	for (int i = 0; i < 2; i++) {
		struct control_event event = { .id = take() % 4u };

		all.parts[i].head = (struct wm_message){ CONTROL_MAGIC, CONTROL_VERSION,
							 CONTROL_EVENT, 0, 47 };
		memcpy(all.parts[i].body, &event, sizeof(event));
		strcpy(all.parts[i].body + sizeof(event), TEXT);
	}
	say(CONTROL_BUNDLE, 0, &all, sizeof(all), take() % 4 ? -1 : some_fd());
}

static void say_more(uint32_t serial)
{
	static const uint8_t zeros[64];
	uint8_t kind = take() % 16;
	struct control_event event = { .id = take() % 4u };

	if (kind == CONTROL_DONE)
		say_done(serial ? serial : take());
	else if (kind == CONTROL_BUNDLE)
		say_bundle();
	else if (kind == CONTROL_WATCH_TABLE)
		say_table();
	else if (kind == CONTROL_EVENT)
		say_text(CONTROL_EVENT, 0, &event, sizeof(event));
	else if (kind >= CONTROL_REFUSED && kind <= CONTROL_MODULE)
		say_text(kind, serial, zeros, sizeof(struct control_module));
	else
		say(kind, serial, zeros, sizeof(zeros), -1);
}

/* Events in pages of two threads; then what the input changes of the store. */
static void write_store(void)
{
	uint64_t ticks = __builtin_ia32_rdtsc(), seed = 0;

	if (!has_store)
		return;
	for (uint32_t i = 0; i < input->count; i++)
		seed = seed * 31 + input->bytes[i];
	for (uint32_t number = 0; number < 6; number++) {
		struct wm_page *page = sample_store_page(&store, number, number % 2);

		page->begin_ticks = ticks;
		for (unsigned int i = take() % 8u; i < 20; i++)
			write_event(page, ++ticks, &seed);
		if (number < 4)
			sample_store_close(&store, page);
	}
	switch (take() % 8) {
	case 1:
		damage(store.head, sizeof(*store.head));
		break;
	case 2:
		damage(store.slots, 2 * sizeof(*store.slots));
		break;
	case 3:
		damage(store.taken, 8 * sizeof(*store.taken));
		break;
	case 4:
		damage(store.pages, 6 * sizeof(*store.pages));
		break;
	case 5:
		damage(store.data, 6ul * STORE_PAGE_BYTES);
	}
}

static void open_store(const struct control_open *open)
{
	struct control_store about;

	if (has_store)
		sample_store_release(&store);
	sample_store_make(&store, SLOTS, PAGES, open->policy % 4);
	has_store = 1;
	for (uint32_t slot = 0; slot < 2; slot++)
		sample_store_slot(&store, slot, (uint32_t)getpid() + slot, 0);
	if (take() % 8 == 1)
		damage(store.head, sizeof(*store.head));
	about.bytes = store.bytes;
	say(CONTROL_STORE, 0, &about, sizeof(about), dup(store.fd));
}

static void answer(const struct wm_message *request)
{
	for (unsigned int n = take() % 4u; n; n--)
		say_more(request->serial);
	if (request->type == CONTROL_OPEN)
		open_store((const struct control_open *)(request + 1));
	if (request->type == CONTROL_ARM)
		say_declared();
	if (request->type == CONTROL_WATCH)
		say_table();
	if (request->type == CONTROL_ARM || take() % 2)
		write_store();
	if (request->type == CONTROL_QUIET && has_store)
		store.slots[0].state = store.slots[1].state = SLOT_ENDED;
	if (request->type != CONTROL_WAIT)
		say_done(request->serial);
}

static void serve(int listener)
{
	static unsigned char packet[CONTROL_BYTES_MAX] __attribute__((aligned(8)));
	struct {
		struct control_hello hello;
		char exe[16];
	} hello = { .hello = { .pid = (uint32_t)getpid(),
			       .agent_tid = (uint32_t)getpid(),
			       .way = WAY_PROC_MEM },
		    .exe = "/bin/sample" };

	fd_to_tool = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	hello.hello.forked = take() % 4 == 1;
	hello.hello.inherits = take() % 4 == 1;
	say(CONTROL_HELLO, 0, &hello, sizeof(hello), -1);
	while (recv(fd_to_tool, packet, sizeof(packet), 0) > 0)
		answer((const struct wm_message *)packet);
	close(fd_to_tool);
}

static pid_t agent;

static void agent_address(struct sockaddr_un *address, pid_t pid)
{
	char dir[SOCKETDIR_BYTES], name[32];

	socketdir_path(geteuid(), getenv("XDG_RUNTIME_DIR"), dir);
	socketdir_make(dir, geteuid());
	snprintf(name, sizeof(name), "%d.agent", (int)pid);
	socketdir_address(address, dir, name);
}

static void agent_run(int ready)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	agent_address(&address, getpid());
	unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 4))
		_exit(2);
	close(ready);
	for (;;)
		serve(fd);
}

static void agent_start(void)
{
	int ends[2];
	char byte;

	if (agent > 0) {
		kill(agent, SIGKILL);
		waitpid(agent, NULL, 0);
	}
	if (pipe2(ends, O_CLOEXEC))
		abort();
	agent = fork();
	if (!agent) {
		close(ends[0]);
		agent_run(ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1))
		abort();
	close(ends[0]);
}

/*
 * Whether the agent is there and has done with the connection before, so that it uses nothing of
 * the next input.
 */
static int agent_is_idle(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), idle;
	struct sockaddr_un address;
	char packet[BODY_MAX];

	agent_address(&address, agent);
	idle = agent > 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	       recv(fd, packet, sizeof(packet), 0) > 0;
	close(fd);
	return idle;
}

/* ---- the session ---- */

static void use(struct wm_session *session, uint8_t how, const char *dir)
{
	struct consumers consumers = { 0 };
	char watch[64];

	snprintf(watch, sizeof(watch), "watch:%p/8", (void *)&input->watched);
	if (how % 16 == 9) /* rare: it takes a second */
		(void)wm_session_add(session, watch);
	if (how & 2)
		(void)wm_session_output(session, dir);
	if (wm_session_add(session, "marker:*:*") || wm_session_attach(session, agent) ||
	    wm_session_start(session))
		return;
	if (!(how & 2))
		consumers_make(&consumers, session);
	for (int i = 0; i < 2; i++) {
		(void)wm_session_wait(session, 0);
		if (!(how & 2))
			consumers_read(&consumers, session);
	}
	(void)wm_session_stop(session);
	if (how & 2)
		return;
	consumers_read(&consumers, session);
	consumers_release(&consumers);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct wm_session_options options = { .size = sizeof(options) };
	struct wm_session *session;
	char dir[128];
	uint8_t how;

	if (!input) {
		input = mmap(NULL, sizeof(*input), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		setenv("XDG_RUNTIME_DIR", folder_path(), 1);
	}
	input->count = 0;
	if (!agent_is_idle())
		agent_start();
	input->count = count < INPUT_MAX ? (uint32_t)count : INPUT_MAX;
	memcpy(input->bytes, bytes, input->count);
	input->at = 0;
	how = take();
	options.policy = how >> 2 & 1 ? WM_POLICY_CYCLIC : WM_POLICY_DISCARD;
	snprintf(dir, sizeof(dir), "%s/trace", folder_path());
	if (!wm_session_open(&session, &options)) {
		use(session, how, dir);
		wm_session_close(session);
	}
	/* one in 8, since each takes longer than all else here */
	if (how & 2 && how % 32 < 4 &&
	    commands_run(take(), &(struct commands_of){ dir, dir, "/proc/self/exe" }, NULL))
		abort();
	sample_folder_remove(dir);
	return 0;
}

#ifndef LIBFUZZER

/* Nothing: a valid agent, which all others are made of. */
static size_t make_seed(uint8_t *to)
{
	memset(to, 0, 512);
	return 512;
}

static size_t change(uint8_t *bytes, size_t count, uint64_t *seed)
{
	for (uint64_t n = run_random(seed) % 12; n; n--)
		bytes[run_random(seed) % (run_random(seed) % 2 ? 64 : count)] = (uint8_t)run_random(
			seed);
	return count;
}

int main(int argc, char **argv)
{
	return run_main(argc, argv, make_seed, change);
}

#endif
