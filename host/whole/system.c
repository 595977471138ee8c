/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contract: port.h, port/limit.h and port/signal.h. The process, its user and limits, its
 * signals, other programs, and the kernel's own files.
 */
#include <stdio.h>
#include <string.h>

#include "host/whole/files.h"
#include "host/whole/group.h"
#include "host/whole/programs.h"
#include "lib/port/limit.h"
#include "lib/port/signal.h"

/* ---- this process ---- */

uint32_t port_user(void)
{
	return process_now()->uid;
}

int port_process(void)
{
	return (int)process_now()->number;
}

bool port_is_privileged(void)
{
	return false;
}

const char *port_variable(const char *name)
{
	const char *const *at = process_now()->environment;
	size_t n = strlen(name);

	for (; at && *at; at++)
		if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
			return *at + n + 1;
	return NULL;
}

int port_folder(char *to, size_t bytes)
{
	int err = machine_call(CALL_FOLDER);

	if (err || bytes < 2)
		return err ? err : -ERANGE;
	strcpy(to, "/");
	return 0;
}

int port_user_named(const char *name, uint32_t *ret_user)
{
	int err = machine_call(CALL_USER_NAMED);

	(void)name;
	(void)ret_user;
	return err ? err : -ENOENT;
}

int port_home(uint32_t user, char *to, size_t bytes)
{
	int err = machine_call(CALL_HOME);

	(void)user;
	(void)to;
	(void)bytes;
	return err ? err : -ENOENT;
}

/* ---- limits ---- */

uint64_t port_limit(enum port_limit which)
{
	machine_pass(CALL_LIMIT);
	return which == PORT_LIMIT_DESCRIPTORS ? process_now()->fd_limit : UINT64_MAX;
}

void port_limit_raise_descriptors(void)
{
	machine_pass(CALL_LIMIT_RAISE_DESCRIPTORS);
}

bool port_is_filtered(void)
{
	return false;
}

/* ---- signals ---- */

struct fd_signals {
	struct description d;
	struct process *process;
	bool refused; /* a fault has said that none waits */
};

static unsigned int signals_ready(const struct description *d)
{
	return ((const struct fd_signals *)d)->process->signals ? PORT_INPUT : 0;
}

static void signals_end(struct description *d)
{
	((struct fd_signals *)d)->process->signals_fd = NULL;
}

static const struct kind signals_kind = { "signals", signals_ready, signals_end };

void port_signals_block(struct port_signals_before *ret_before)
{
	*ret_before = (struct port_signals_before){ { 0 } };
}

void port_signals_as(const struct port_signals_before *before)
{
	(void)before;
}

int port_signals(void)
{
	int err = machine_call(CALL_SIGNALS), fd;
	struct fd_signals *s;

	if (err)
		return err;
	s = description_new(&signals_kind, sizeof(*s));
	s->process = process_now();
	fd = fd_new(process_now(), &s->d);
	if (fd < 0)
		description_put(&s->d);
	else
		process_now()->signals_fd = &s->d;
	return (int)machine_result(fd);
}

void process_signal(struct process *process, enum process_signal signal)
{
	process->signals |= 1u << signal;
	machine_note("process %s gets signal %d", process->name, signal);
	if (process->signals_fd)
		description_changed(process->signals_fd);
}

int port_signals_take(int signals, struct port_signal *ret)
{
	struct process *p = process_now();
	struct fd_signals *s;
	bool again;

	machine_pass(CALL_SIGNALS_TAKE);
	s = fd_of(signals, &signals_kind);
	if (!s)
		return -EBADF;
	/* A signal that waits is not denied for ever. */
	again = s->refused;
	s->refused = !again && machine_fault(CALL_SIGNALS_TAKE) != 0;
	if (s->refused)
		return -EAGAIN;
	if (!p->signals)
		return (int)machine_result(-EAGAIN);
	*ret = (struct port_signal){ .hang_up = p->signals & (1u << SIGNAL_HANG_UP) };
	p->signals &= ~(1u << (ret->hang_up ? SIGNAL_HANG_UP : SIGNAL_END));
	return (int)machine_result(0);
}

/* ---- other programs ---- */

int port_spawn(const struct port_program *program)
{
	int err = machine_call(CALL_SPAWN);

	if (!err)
		err = programs_start(program);
	return (int)machine_result(err);
}

/* ---- the kernel's own files ---- */

#define TEXT_BYTES 512u

/* Those that are always there. group.c has the others. */
static const struct {
	const char *path, *text;
} system_files[] = {
	{ "/proc/sys/kernel/overflowuid", "65534\n" },
	{ "/proc/self/uid_map", "         0          0 4294967295\n" },
	{ "/proc/sys/fs/lease-break-time", "45\n" },
};

struct fd_system {
	struct description d;
	char path[128], text[TEXT_BYTES]; /* as of its first byte's read */
};
static const struct kind system_kind = { "system", NULL, NULL };

/* false: there is no such file. */
static bool system_look(const char *path, char text[TEXT_BYTES])
{
	for (u32 i = 0; i < sizeof(system_files) / sizeof(system_files[0]); i++)
		if (strcmp(system_files[i].path, path) == 0)
			return snprintf(text, TEXT_BYTES, "%s", system_files[i].text) > 0;
	return group_text(process_now(), path, text, TEXT_BYTES);
}

int port_system_open(const char *path)
{
	int err = machine_call(CALL_SYSTEM_OPEN), fd;
	char text[TEXT_BYTES];
	struct fd_system *s;

	if (err)
		return err;
	if (strlen(path) >= sizeof(s->path) || !system_look(path, text))
		return (int)machine_result(-ENOENT);
	s = description_new(&system_kind, sizeof(*s));
	strcpy(s->path, path);
	fd = fd_new(process_now(), &s->d);
	if (fd < 0)
		description_put(&s->d);
	return (int)machine_result(fd);
}

int64_t port_system_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	int64_t err = machine_call(CALL_SYSTEM_READ);
	struct fd_system *s = fd_of(fd, &system_kind);
	size_t all;

	if (err || !s)
		return err ? err : -EBADF;
	if (offset == 0)
		system_look(s->path, s->text);
	all = strlen(s->text);
	if (offset >= all)
		return machine_result(0);
	if (bytes > all - offset)
		bytes = all - offset;
	memcpy(to, s->text + offset, bytes);
	return machine_result((long)bytes);
}

int64_t port_system_text(const char *path, char *to, size_t room)
{
	int fd = port_system_open(path);
	int64_t n;

	if (fd < 0)
		return fd;
	n = port_system_read(fd, to, room - 1, 0);
	port_close(fd);
	if (n >= 0)
		to[n] = '\0';
	return n;
}
