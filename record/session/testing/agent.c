/* SPDX-License-Identifier: MIT */
#include "record/session/testing/agent.h"

#include "abi/control.h"
#include "abi/watch.h"
#include "base/socketdir.h"
#include "record/session/testing/store.h"
#include "target/process/ticks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <x86intrin.h>

#define TEXT "mj\nnet\nrx\nsample.c\n7\n"
#define PAGE_EVENTS 100u
#define FORK_PAGE 6 /* behind the pages of write_events() */

struct agent {
	const struct sample_agent *as;
	int fd;
	struct sample_store store;
	int has_store;
};

static void send_message(struct agent *agent, uint16_t type, uint32_t serial, const void *body,
			 size_t bytes, int fd)
{
	struct wm_message head = {
		.magic = agent->as->way == SAMPLE_RUBBISH ? 0x12345678 : CONTROL_MAGIC,
		.version = agent->as->way == SAMPLE_OTHER_VERSION ? 99 : CONTROL_VERSION,
		.type = type,
		.serial = serial,
		.bytes = (uint32_t)bytes,
	};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)body, bytes } };
	struct msghdr packet = { .msg_iov = parts, .msg_iovlen = 2 };

	if (fd >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	if (sendmsg(agent->fd, &packet, MSG_NOSIGNAL) < 0)
		_exit(3);
}

static void say_hello(struct agent *agent)
{
	struct {
		struct control_hello hello;
		char exe[16];
	} body = {
		.hello = { .pid = (uint32_t)getpid(),
			   .agent_tid = (uint32_t)getpid(),
			   .way = WAY_PROC_MEM },
		.exe = "/bin/sample",
	};

	send_message(agent, CONTROL_HELLO, 0, &body, sizeof(body), -1);
}

static void done(struct agent *agent, uint32_t serial, int error)
{
	struct control_done answer = { .error = error };

	send_message(agent, CONTROL_DONE, serial, &answer, sizeof(answer), -1);
}

static void open_store(struct agent *agent, uint32_t serial, const struct control_open *open)
{
	struct control_store about;

	if (agent->as->way == SAMPLE_NO_STORE) {
		done(agent, serial, -WM_E_MEMORY_LIMIT);
		return;
	}
	sample_store_make(&agent->store, 8, 128, open->policy);
	agent->has_store = 1;
	about.bytes = agent->store.bytes;
	if (agent->as->way == SAMPLE_UNSEALED)
		agent->store.fd = fileno(tmpfile());
	send_message(agent, CONTROL_STORE, serial, &about, sizeof(about), agent->store.fd);
	done(agent, serial, 0);
}

static void write_events(struct agent *agent)
{
	struct wm_page *page = NULL;
	uint64_t ticks = __rdtsc() + (agent->as->way == SAMPLE_AHEAD ? UINT64_C(1) << 40 : 0);
	uint32_t number = 0;

	sample_store_slot(&agent->store, 0, (uint32_t)getpid(), 0);
	for (unsigned int i = 0; i < agent->as->events; i++) {
		if (i % PAGE_EVENTS == 0) {
			if (page)
				__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
			page = sample_store_page(&agent->store, number++, 0);
			page->begin_ticks = ticks;
		}
		sample_store_event(&agent->store, page, 1, ticks++);
	}
	agent->store.slots[0].discarded = agent->as->losses;
}

/*
 * Stop this process as the agent's janitor does. If ptrace(2) is not allowed, nothing is stopped.
 */
static void stop_by_child(void)
{
	pid_t self = getpid(), child;
	int status;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	child = fork();
	if (child)
		return;
	alarm(0);
	if (!ptrace(PTRACE_SEIZE, self, NULL, NULL) &&
	    !ptrace(PTRACE_INTERRUPT, self, NULL, NULL) && waitpid(self, &status, __WALL) == self) {
		usleep(SAMPLE_SLOW_MS * 1000);
		ptrace(PTRACE_DETACH, self, NULL, NULL);
	}
	_exit(0);
}

/* Wait for a child, as the agent waits for its janitor. */
static void wait_for_child(void)
{
	pid_t child = fork();

	if (!child) {
		alarm(0);
		usleep(SAMPLE_PARENT_MS * 1000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/*
 * Act as a child whose fork has not returned yet: the tool must not close the store meanwhile. If
 * it has not, or if this child got no CPU for so long that the tool may give up, write an event.
 */
static void fork_late(struct agent *agent)
{
	struct wm_store *store = agent->store.head;
	uint64_t begin_ns = ticks_monotonic_ns(), now_ns = begin_ns;
	struct wm_page *page;
	int is_closed = 0;

	__atomic_store_n(&store->forks, 1, __ATOMIC_SEQ_CST);
	if (fork())
		return;
	while (!is_closed && now_ns - begin_ns < SAMPLE_FORK_MS * UINT64_C(1000000)) {
		is_closed = (int)__atomic_load_n(&store->closed, __ATOMIC_SEQ_CST);
		now_ns = ticks_monotonic_ns();
	}
	if (!is_closed || now_ns - begin_ns > SAMPLE_FORK_MAX_MS * UINT64_C(1000000)) {
		sample_store_slot(&agent->store, 1, (uint32_t)getpid(), 0);
		/* a drain takes no open page from a child */
		agent->store.slots[1].pid = (uint32_t)getpid();
		page = sample_store_page(&agent->store, FORK_PAGE, 1);
		page->begin_ticks = __rdtsc();
		sample_store_event(&agent->store, page, 1, page->begin_ticks);
		agent->store.slots[1].state = SLOT_ENDED;
	}
	__atomic_store_n(&store->forked, 1, __ATOMIC_SEQ_CST);
	_exit(0);
}

static void flood(struct agent *agent)
{
	struct {
		struct control_refused refused;
		char text[256];
	} refusal = { .refused = { .error = -WM_E_TRACED } };
	struct {
		struct control_module module;
		char path[1000];
	} module = { .path = "/" };

	memset(module.path + 1, 'm', sizeof(module.path) - 2);
	for (unsigned int i = 0; i < SAMPLE_FLOOD; i++) {
		snprintf(refusal.text, sizeof(refusal.text), "md\nnet\n%0100u\na.c\n1\n", i);
		send_message(agent, CONTROL_REFUSED, 0, &refusal, sizeof(refusal), -1);
		module.module.base = i;
		send_message(agent, CONTROL_MODULE, 0, &module, sizeof(module), -1);
	}
}

/* A bundle is a memfd with messages: each has its head, its body, and padding of zeros. */
#define PADDED(bytes) (((bytes) + CONTROL_BUNDLE_ALIGN) & ~(size_t)(CONTROL_BUNDLE_ALIGN - 1))

static unsigned char *put(unsigned char *to, uint16_t type, const void *body, size_t bytes)
{
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, 0, (uint32_t)bytes };

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), body, bytes);
	return to + PADDED(sizeof(head) + bytes);
}

static void hold(struct agent *agent)
{
	struct {
		struct control_event event;
		char text[sizeof(TEXT)];
	} event = { .text = TEXT };
	struct control_foreign held = { .id = UINT32_MAX, .begin_ns = 1 };
	struct control_bundle about = {
		.count = 2 * SAMPLE_HOLDS_EACH,
		.bytes = SAMPLE_HOLDS_EACH * (PADDED(sizeof(struct wm_message) + sizeof(event)) +
					      PADDED(sizeof(struct wm_message) + sizeof(held))),
	};
	int fd = memfd_create("bundle", MFD_ALLOW_SEALING);
	unsigned char *to;

	if (ftruncate(fd, (off_t)about.bytes))
		_exit(4);
	to = mmap(NULL, about.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (event.event.id = 2; event.event.id < SAMPLE_HOLDS_EACH + 2; event.event.id++)
		to = put(to, CONTROL_EVENT, &event, sizeof(event));
	for (unsigned int i = 0; i < SAMPLE_HOLDS_EACH; i++)
		to = put(to, CONTROL_FOREIGN, &held, sizeof(held));
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	send_message(agent, CONTROL_BUNDLE, 0, &about, sizeof(about), fd);
}

static void arm(struct agent *agent, uint32_t serial, const char *globs, uint32_t count)
{
	struct {
		struct control_event event;
		char text[sizeof(TEXT)];
	} body = { .event = { .id = 1 }, .text = TEXT };
	int matches = 0;

	for (; count--; globs += strlen(globs) + 1)
		matches |= !strcmp(globs, "*:*") || !strcmp(globs, "net:*") ||
			   !strcmp(globs, SAMPLE_EVENT);
	if (agent->as->is_armed)
		*agent->as->is_armed = 1;
	if (agent->as->way == SAMPLE_DEAF_ARM)
		usleep(SAMPLE_DEAF_MS * 1000);
	if (agent->as->way == SAMPLE_FLOODS)
		flood(agent);
	if (agent->as->way == SAMPLE_HOLDS)
		hold(agent);
	if (matches) {
		send_message(agent, CONTROL_EVENT, 0, &body, sizeof(body), -1);
		write_events(agent);
	}
	done(agent, serial, 0);
	if (agent->as->way == SAMPLE_STOPS)
		stop_by_child();
	if (agent->as->way == SAMPLE_DIES)
		_exit(0);
	if (agent->as->way == SAMPLE_HANGS_UP) {
		close(agent->fd);
		pause();
	}
}

static void list(struct agent *agent, uint32_t serial)
{
	struct {
		struct control_marker marker;
		char text[sizeof(TEXT) + 4];
	} body = { .marker = { .sites = 1 }, .text = TEXT };

	send_message(agent, CONTROL_MARKER, serial, &body, sizeof(body), -1);
	done(agent, serial, 0);
}

static void watch(struct agent *agent, uint32_t serial)
{
	struct control_watch_table about = { .bytes = sizeof(struct watch_table) };
	struct control_watch_lost lost = { .error = -WM_E_TRAP_REPLACED };
	int fd = memfd_create("table", MFD_ALLOW_SEALING);

	if (agent->as->way == SAMPLE_ENDS_AT_WATCH)
		_exit(0);
	if (agent->as->way == SAMPLE_UNSEALED_WATCH)
		fd = fileno(tmpfile());
	if (ftruncate(fd, (off_t)about.bytes))
		_exit(4);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	send_message(agent, CONTROL_WATCH_TABLE, serial, &about, sizeof(about), fd);
	if (agent->as->way == SAMPLE_LOSES_WATCH)
		send_message(agent, CONTROL_WATCH_LOST, 0, &lost, sizeof(lost), -1);
	done(agent, serial, 0);
}

static void load(struct agent *agent)
{
	struct {
		struct control_module module;
		char path[16];
	} body = { .path = "/lib/late.so" };

	send_message(agent, CONTROL_MODULE, 0, &body, sizeof(body), -1);
}

static void obey(struct agent *agent, unsigned char *packet)
{
	struct wm_message *head = (struct wm_message *)packet;
	unsigned char *body = packet + sizeof(*head);

	switch (head->type) {
	case CONTROL_OPEN:
		open_store(agent, head->serial, (const struct control_open *)body);
		break;
	case CONTROL_ARM:
		arm(agent, head->serial, (const char *)body + sizeof(struct control_rules),
		    ((const struct control_rules *)body)->count);
		break;
	case CONTROL_DISARM:
		if (agent->as->is_armed)
			*agent->as->is_armed = 0;
		if (agent->as->way == SAMPLE_DEAF)
			usleep(SAMPLE_DEAF_MS * 1000);
		done(agent, head->serial, 0);
		break;
	case CONTROL_LIST:
		list(agent, head->serial);
		break;
	case CONTROL_QUIET:
		if (agent->as->way == SAMPLE_DEAF)
			usleep(SAMPLE_DEAF_MS * 1000);
		if (agent->as->way == SAMPLE_PARENT)
			wait_for_child();
		if (agent->as->way == SAMPLE_SLOW)
			usleep(SAMPLE_SLOW_MS * 1000);
		if (agent->has_store)
			agent->store.slots[0].state = SLOT_ENDED;
		if (agent->as->way == SAMPLE_FORKS)
			fork_late(agent);
		done(agent, head->serial, 0);
		break;
	case CONTROL_WATCH:
		watch(agent, head->serial);
		break;
	case CONTROL_LEAVE:
		if (agent->as->way == SAMPLE_LOADS)
			load(agent);
		done(agent, head->serial, 0);
		break;
	default:
		done(agent, head->serial, 0);
	}
}

static struct agent *breaking;

static void break_connection(int number)
{
	struct wm_page *page;

	if (breaking->as->undeclared) {
		sample_store_slot(&breaking->store, 1, (uint32_t)getpid(), 1);
		page = sample_store_page(&breaking->store, FORK_PAGE, 1);
		page->begin_ticks = __rdtsc();
		for (unsigned int i = 0; i < breaking->as->undeclared; i++)
			sample_store_event(&breaking->store, page, 2, page->begin_ticks);
	}
	(void)!send(breaking->fd, "?", (size_t)number > 0, MSG_NOSIGNAL);
}

static void serve(const struct sample_agent *as, int listener)
{
	static unsigned char packet[CONTROL_BYTES_MAX] __attribute__((aligned(8)));
	struct agent agent = { .as = as };

	agent.fd = accept(listener, NULL, NULL);
	if (as->way == SAMPLE_SILENT)
		pause();
	breaking = &agent;
	if (as->way == SAMPLE_BREAKS)
		signal(SIGUSR1, break_connection);
	say_hello(&agent);
	while (recv(agent.fd, packet, sizeof(packet), 0) > 0)
		obey(&agent, packet);
	if (as->way == SAMPLE_BREAKS)
		pause();
	_exit(0);
}

static void run(const struct sample_agent *as, int ready)
{
	struct sockaddr_un address;
	char dir[SOCKETDIR_BYTES], name[32];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(60);
	socketdir_path(geteuid(), getenv("XDG_RUNTIME_DIR"), dir);
	socketdir_make(dir, geteuid());
	snprintf(name, sizeof(name), "%d.agent", (int)getpid());
	socketdir_address(&address, dir, name);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0)
		_exit(2);
	close(ready);
	serve(as, fd);
}

void sample_agent_start(struct sample_agent *agent)
{
	int ends[2];
	char byte;

	if (pipe(ends) < 0)
		abort();
	agent->pid = fork();
	if (agent->pid == 0) {
		close(ends[0]);
		run(agent, ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 0)
		abort();
	close(ends[0]);
}

void sample_agent_release(struct sample_agent *agent)
{
	kill(agent->pid, SIGKILL);
	waitpid(agent->pid, NULL, 0);
}
