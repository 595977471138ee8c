/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See files.h: the servers of file systems that are not local. */
#include <string.h>

#include "host/whole/files.h"

static struct {
	bool silent;
	struct waiters waiters;
} servers[FILES_SERVERS + 1]; /* number 0 is the local file system: it always answers */

void server_begin(void)
{
	memset(servers, 0, sizeof(servers));
}

bool server_is_silent(u32 server)
{
	return servers[server].silent;
}

void server_silence(u32 server, bool silent)
{
	if (servers[server].silent == silent)
		return;
	machine_note("server %u %s", server, silent ? "is silent" : "answers");
	servers[server].silent = silent;
	if (silent)
		return;
	waiters_wake(&servers[server].waiters);
	reads_answered(server);
}

static bool server_is_look(const struct task *t)
{
	return t->call == CALL_LOOK || t->call == CALL_REOPEN_AT_ONCE;
}

/* The running task is about to wait for it. Others of its process may wait, too. */
static void server_keeps(u32 server)
{
	const struct task *me = machine.running;
	u32 nr = 1;

	machine_note("%s waits for server %u", call_names[me->call], server);
	if (machine.most_looks == 0 || !server_is_look(me))
		return;
	for (const struct task *t = servers[server].waiters.first; t; t = t->next_on)
		nr += t->process == me->process && server_is_look(t);
	if (nr > machine.most_looks)
		machine_fail("%s has %u threads that look at files of silent server %u",
		             me->process->name, nr, server);
}

void server_ask(const struct inode *inode)
{
	u32 server = inode->server;

	if (server_is_silent(server))
		server_keeps(server);
	while (server_is_silent(server))
		task_wait(&servers[server].waiters, NS_NEVER);
}

void server_ask_by(struct fd_file *file)
{
	description_hold(&file->d);
	server_ask(file->inode);
}
