/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic stat`: what the running cache holds and has done. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "measure/cli.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

#define SOCKET_MAX_BYTES 4096
#define WATCH_SECONDS 1
#define MIB_SHIFT 20
#define NS_PER_S UINT64_C(1000000000)

struct stat_options {
	const char *socket;
	bool json;
	bool watch;
	char default_socket[SOCKET_MAX_BYTES];
};

static const char doc[] =
	"Print what the running cache holds and has done. Starts none."
	"\v"
	"Examples:\n"
	"  lodic stat\n"
	"  lodic stat --watch\n"
	"  lodic stat --json | jq .cached\n";

static const struct argp_option option_list[] = {
	{ "socket", 's', "PATH", 0, "The service's socket (default: the user's own)",
	  0 },
	{ "json", 'j', NULL, 0, "Print JSON, one object", 0 },
	{ "watch", 'w', NULL, 0, "Again every second, until Ctrl-C", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_options *o = state->input;

	switch (key) {
	case 's': o->socket = arg; return 0;
	case 'j': o->json = true; return 0;
	case 'w': o->watch = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much; stat takes options only", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* One list for the table and for JSON, so that neither forgets a number. */
struct row {
	const char *name;
	size_t at;
	const char *meaning;
};

#define ROW(field, meaning) \
	{ \
#field, offsetof(struct lodic_stat, field), meaning \
	}

static const struct row rows[] = {
	ROW(frames, "blocks the cache can hold"),
	ROW(cached, "blocks it holds now"),
	ROW(pinned, "blocks pinned now"),
	ROW(admitted, "blocks brought in since the start"),
	ROW(evicted, "blocks thrown out"),
	ROW(refused, "evictions that met a pin"),
	ROW(errors, "reads of a file that failed"),
	ROW(files, "files held under a proof"),
	ROW(revoked, "files given up for a writer"),
	ROW(clients, "processes connected"),
	ROW(contexts, "contexts open"),
	ROW(reaped, "contexts taken back from the dead"),
	ROW(hits, "blocks read or pinned from the cache"),
	ROW(soft_misses, "of these, pins that set an entry first"),
	ROW(misses, "blocks read from the kernel"),
	ROW(retries, "copies thrown away"),
	ROW(full, "pins refused: count or set full, no table"),
	ROW(control_bytes, "bytes of shared tables"),
	ROW(data_bytes, "bytes of frames"),
	ROW(count_bytes, "bytes of shared counters"),
	ROW(context_bytes, "bytes of one context"),
	ROW(service_pid, "process id of the service"),
	ROW(uptime_ns, "nanoseconds since it started"),
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t row_value(const struct lodic_stat *s, const struct row *row)
{
	uint64_t v;

	memcpy(&v, (const char *)s + row->at, sizeof(v));
	return v;
}

static int print_json(const struct lodic_stat *s, const char *socket)
{
	json_t *o = json_object();

	json_object_set_new(o, "socket", json_string(socket));
	json_object_set_new(
		o, "scheme",
		json_string(lodic_scheme_name((enum lodic_scheme)s->scheme)));
	for (size_t i = 0; i < NR_ROWS; i++)
		json_object_set_new(o, rows[i].name,
		                    json_integer((json_int_t)row_value(s, &rows[i])));
	json_object_set_new(o, "entries", json_integer(s->entries));
	json_object_set_new(o, "io_uring", json_boolean(s->io_uring));
	json_object_set_new(o, "huge_pages", json_boolean(s->huge_pages));
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
	return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

static int print_table(const struct lodic_stat *s, const char *socket)
{
	uint64_t asked = s->hits + s->misses;

	printf("cache at %s: %llu MiB, counting by %s, up %llu s\n", socket,
	       (unsigned long long)(s->data_bytes >> MIB_SHIFT),
	       lodic_scheme_name((enum lodic_scheme)s->scheme),
	       (unsigned long long)(s->uptime_ns / NS_PER_S));
	if (asked)
		printf("hits: %.2f %% of %llu blocks asked for\n",
		       100.0 * (double)s->hits / (double)asked,
		       (unsigned long long)asked);
	for (size_t i = 0; i < NR_ROWS; i++)
		printf("  %-14s %15llu  %s\n", rows[i].name,
		       (unsigned long long)row_value(s, &rows[i]), rows[i].meaning);
	printf("  %-14s %15u  places in a context's table\n", "entries", s->entries);
	printf("  %-14s %15s  how blocks are filled\n", "io_uring",
	       s->io_uring ? "yes" : "no");
	printf("  %-14s %15s  under the frames\n", "huge_pages",
	       s->huge_pages ? "yes" : "no");
	return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

static int complain(int error, const char *socket)
{
	switch (error) {
	case -ENOENT:
		cli_error("no cache runs at %s; start one with `lodic serve'", socket);
		break;
	case -ECONNREFUSED:
		cli_error("the service at %s is dead; start one with `lodic serve'",
		          socket);
		break;
	case -EPERM:
		cli_error("the service at %s belongs to another user", socket);
		break;
	case -EPROTO:
		cli_error("the service at %s speaks another version; restart it",
		          socket);
		break;
	default:
		cli_error("cannot ask the service at %s: %s", socket, strerror(-error));
	}
	return CLI_FAILED;
}

static int show(struct lodic *lodic, const struct stat_options *o)
{
	struct lodic_stat s;
	int error, status;

	do {
		error = lodic_stat(lodic, &s);
		if (error == -ESTALE) {
			cli_error("the service at %s has gone", o->socket);
			return CLI_FAILED;
		}
		if (error)
			return complain(error, o->socket);
		if (o->watch && !o->json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		status = o->json ? print_json(&s, o->socket)
		                 : print_table(&s, o->socket);
		if (status != CLI_OK)
			return status; /* nobody reads us any more */
		if (o->watch && !cli_stopped)
			sleep(WATCH_SECONDS); /* a signal ends it */
	} while (o->watch && !cli_stopped);
	return CLI_OK;
}

int command_stat(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct stat_options o;
	struct lodic_options attach = { .bytes = sizeof(attach), .service = "" };
	struct lodic *lodic;
	int error, status;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return CLI_USAGE;
	if (!o.socket) {
		error = path_default_socket(o.default_socket, sizeof(o.default_socket),
		                            false);
		if (error)
			return complain(error, o.default_socket);
		o.socket = o.default_socket;
	}
	cli_catch_signals();
	attach.socket = o.socket;
	error = lodic_attach(&attach, &lodic);
	if (error)
		return complain(error, o.socket);
	status = show(lodic, &o);
	lodic_detach(lodic);
	return status;
}
