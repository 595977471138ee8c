/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the doctor says to people. All of it goes to stdout, which doctor.c has put in place. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor/advice.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/host.h"
#include "cli/doctor/report.h"
#include "cli/doctor/run.h"
#include "cli/text.h"
#include "lodic/lodic.h"

#define FILE_ROWS 12u

const char *const doctor_way_names[DOCTOR_WAYS] = { "pread", "counted", "served" };

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void print_row(uint64_t bytes, uint64_t whole, uint64_t reads, const char *what)
{
	if (bytes == 0 && reads == 0)
		return;
	printf("%10s %6s %9s  ", text_bytes(bytes).s, text_percent(bytes, whole).s,
	       reads ? text_count(reads).s : "-");
	for (; *what; what++)
		putchar(*what == '_' ? ' ' : *what);
	putchar('\n');
}

/* All that processes read by the kernel's count, or what was seen if nobody knows that. */
static uint64_t whole_bytes(const struct doctor *d)
{
	uint64_t seen = doctor_sum(d->counts.bytes);

	return d->io.known && d->io.read_bytes > seen ? d->io.read_bytes : seen;
}

static void print_reads(const struct doctor *d)
{
	const struct doctor_counts *c = &d->counts;
	uint64_t seen = doctor_sum(c->bytes), nr_seen = doctor_sum(c->reads);
	uint64_t whole = whole_bytes(d), bytes = 0, reads = 0;

	for (size_t i = 0; i < d->nr_files; i++)
		if (d->files[i].counts.reads[RUN_COULD] &&
		    doctor_qualifies(&d->files[i], DOCTOR_NOW)) {
			bytes += d->files[i].counts.bytes[RUN_COULD];
			reads += d->files[i].counts.reads[RUN_COULD];
		}
	printf("\n%10s %6s %9s  %s\n", "BYTES", "%", "READS", "HOW");
	print_row(bytes, whole, reads,
	          "pread and its relatives: `lodic run' can serve them");
	print_row(c->bytes[RUN_COULD] - bytes, whole, c->reads[RUN_COULD] - reads,
	          "the same, of files that the service would not cache");
	for (unsigned int i = 0; i < RUN_COULD; i++)
		if (i != RUN_KEEPS_OFFSET && i != RUN_NOT_REGULAR)
			print_row(c->bytes[i], whole, c->reads[i], run_why_name(i));
	print_row(c->bytes[RUN_KEEPS_OFFSET], whole, c->reads[RUN_KEEPS_OFFSET],
	          "read and readv of files: the kernel keeps the offset");
	print_row(c->bytes[RUN_NOT_REGULAR], whole, c->reads[RUN_NOT_REGULAR],
	          "of pipes, terminals, devices");
	print_row(whole - seen, whole,
	          d->io.known && d->io.reads > nr_seen ? d->io.reads - nr_seen : 0,
	          "not seen: stdio, sendfile, and processes without the shim");
	bytes = c->bytes[RUN_COULD] + c->bytes[RUN_FIRST_READ] +
	        c->bytes[RUN_KEEPS_OFFSET];
	printf("%10s %6s %9s  `lodic map' could map these, of files opened read-only\n",
	       text_bytes(bytes).s, text_percent(bytes, whole).s, "");
}

static void print_watched(const struct doctor *d)
{
	uint64_t moved = d->moved_bytes, bytes = d->io.read_bytes;

	printf("\n%10s %6s %9s  %s\n", "BYTES", "%", "READS", "HOW");
	print_row(bytes < moved ? bytes : moved, bytes, 0,
	          "moved an offset: read and readv, at least so many");
	print_row(bytes < moved ? 0 : bytes - moved, bytes, 0,
	          d->nr_others ? "the rest: pread, or pipes and sockets"
	                       : "the rest: pread, as far as /proc can tell");
	print_row(bytes, bytes, d->io.reads, "all");
	printf("\nopen: %u files read-only, %u pipes, sockets and devices\n",
	       d->nr_read_only, d->nr_others);
}

static void print_mappings(const struct doctor *d)
{
	const struct doctor_maps *m = &d->maps;
	unsigned int named =
		m->nr_of_files < DOCTOR_MAPPED ? m->nr_of_files : DOCTOR_MAPPED;

	if (!m->pid) {
		puts("\nmappings: it ended before anybody could look");
		return;
	}
	printf("\nmappings: %u of process %d, %u of data files (%s, %s of that in memory)\n",
	       m->nr, m->pid, m->nr_of_files, text_bytes(m->bytes).s,
	       text_bytes(m->resident_bytes).s);
	for (unsigned int i = named; i-- > 0;) {
		printf("%10s  %u. from the top  ", text_bytes(m->files[i].bytes).s,
		       m->files[i].place);
		text_print(m->files[i].path, 0);
		putchar('\n');
	}
	if (m->rings)
		puts("it has an io_uring: no counter shows what comes that way");
}

static void print_files(const struct doctor *d)
{
	size_t end = d->nr_files < FILE_ROWS ? d->nr_files : FILE_ROWS;

	if (d->nr_files == 0)
		return;
	printf("\n%10s %9s %8s  %s\n", d->pid ? "SIZE" : "BYTES", "READS", "AGAIN",
	       "FILE");
	for (size_t i = 0; i < end; i++) {
		const struct doctor_file *f = &d->files[i];
		uint64_t bytes = doctor_sum(f->counts.bytes);
		uint64_t reads = doctor_sum(f->counts.reads);
		uint64_t once = f->blocks * SEEN_BLOCK_BYTES;
		const char *why = doctor_file_why(f);

		printf("%10s %9s ",
		       d->pid ? text_bytes(f->size).s : text_bytes(bytes).s,
		       d->pid ? "-" : text_count(reads).s);
		if (once && !d->pid)
			printf("%7.1fx  ",
			       (double)f->counts.bytes[RUN_COULD] / (double)once);
		else
			printf("%8s  ", "-");
		text_print(f->path, 0);
		printf("%s%s\n", *why ? ": " : "", why);
	}
	if (end < d->nr_files)
		printf("and %zu more; --json writes them all\n", d->nr_files - end);
}

static void print_prices(const struct doctor *d)
{
	const struct doctor_price *p = &d->price;

	if (!p->known) {
		printf("\n%s\n", p->why);
		return;
	}
	printf("\nns of a read here, of %s at random; median and quartiles of %u rounds\n",
	       text_bytes(p->span_bytes).s, DOCTOR_ROUNDS);
	for (unsigned int w = 0; w < DOCTOR_WAYS; w++) {
		printf("%10s", doctor_way_names[w]);
		for (unsigned int i = 0; i < DOCTOR_SIZES; i++) {
			struct series_spread s =
				doctor_price_spread(p, DOCTOR_HOT, w, i);

			printf("  %s: %.0f (%.0f to %.0f)",
			       text_bytes(seen_size_ends[i]).s, s.median, s.low,
			       s.high);
		}
		putchar('\n');
	}
}

static void print_service(const struct doctor *d)
{
	const struct doctor_service *s = &d->service;
	size_t asked = 0, takes = 0, promised = 0;
	uint64_t bytes = 0;

	if (!s->found)
		return;
	printf("\na service runs at ");
	text_print(s->socket, 0);
	if (s->error) {
		printf(" (pid %d), and could not be asked: %s\n", s->pid,
		       lodic_strerror(s->error));
		return;
	}
	for (size_t i = 0; i < d->nr_files; i++) {
		const struct doctor_file *f = &d->files[i];

		asked += f->service_asked;
		takes += f->service_asked && !f->service_refused;
		promised += f->service_asked && f->service_promised;
		bytes += f->service_bytes;
	}
	printf(" (pid %d): it may have %s; %s for blocks now, %s of these in use\n",
	       s->pid, text_bytes(s->memory_limit).s, text_bytes(s->cache_bytes).s,
	       text_bytes(s->cached_bytes).s);
	printf("it caches %zu of %zu such files, %zu of these by a promise, and has %s of "
	       "them now\n",
	       takes, asked, promised, text_bytes(bytes).s);
}

static void print_users(const struct doctor *d)
{
	if (d->nr_users == 0 || (d->nr_users == 1 && d->users[0] == d->user))
		return;
	printf("it ran as users");
	for (unsigned int i = 0; i < d->nr_users; i++)
		printf("%s %u", i ? "," : "", d->users[i]);
	puts(": each has a service of its own under `lodic run'; " SETTINGS_SYSTEM_FILE
	     " counts for all of them");
}

static void print_range(const struct doctor_gain *g, const char *when)
{
	printf("gain by `lodic run'%s: %.2f, from %.2f to %.2f, in CPU time; %.2f to %.2f by "
	       "the clock\n",
	       when, g->expected, g->low, g->high, g->time_low, g->time_high);
}

static void print_advice(const struct doctor *d)
{
	const struct doctor_promise *p = &d->promise;
	const char *why = d->why;

	switch (d->advice) {
	case DOCTOR_NOTHING:
		if (*why)
			printf("advice: nothing, for that gain needs all files in the "
			       "cache: %s.\n",
			       why);
		else
			puts("advice: nothing. Don't bother: lodic would gain too little here.");
		break;
	case DOCTOR_PERHAPS: printf("advice: perhaps, for %s.\n", why); break;
	case DOCTOR_LITTLE: puts("advice: `lodic run', for a small gain."); break;
	case DOCTOR_RUN: puts("advice: `lodic run'."); break;
	case DOCTOR_PROMISE:
		puts(p->nr ? "advice: promise these files, then `lodic run'. The promise is "
		             "that nobody changes them while a cache has them."
		           : "advice: start the running service anew, which reads its "
		             "promises then; then `lodic run'.");
		if (p->of_memory)
			puts("warning: some lie in tmpfs, and would be in memory twice.");
		break;
	case DOCTOR_UNSEEN:
		printf("advice: none, too little was seen: %s.\n", why);
		break;
	case DOCTOR_NOT_KNOWN:
		printf("advice: none: %s.\n", *why ? why : "no gain is known");
		break;
	}
	for (unsigned int i = 0; i < d->nr_steps; i++) {
		fputs("  ", stdout);
		text_print(d->steps[i], 0);
		putchar('\n');
	}
}

static void print_gain(const struct doctor *d)
{
	bool promise = d->advice == DOCTOR_PROMISE;
	const struct doctor_gain *g = promise ? &d->promised_gain : &d->gain;
	const char *memory = doctor_memory_why(d, g);
	bool known = d->advice != DOCTOR_UNSEEN && d->advice != DOCTOR_NOT_KNOWN;

	putchar('\n');
	if (known)
		print_range(&d->gain, promise ? " as things are" : "");
	if (promise)
		print_range(g, " with a promise");
	if (known && g->first_run < g->low)
		printf("the first run, while the cache fills: %.2f\n", g->first_run);
	print_advice(d);
	if (*memory && d->advice != DOCTOR_NOTHING)
		printf("warning: %s.\n", memory);
}

void doctor_print(const struct doctor *d)
{
	const char *lack;

	printf("lodic doctor: ");
	if (d->pid)
		printf("process %d", d->pid);
	else
		text_print(d->command[0], 0);
	printf(": %.2f s, CPU time %.2f s, of that %.2f s in the kernel",
	       seconds(d->wall_ns), seconds(d->cpu_ns), seconds(d->system_ns));
	if (d->counted_ns)
		printf("; counting took about %.2f s", seconds(d->counted_ns));
	putchar('\n');
	if (d->nr_lost)
		printf("%u processes were not counted: there was no room in %s\n",
		       d->nr_lost, d->counts_folder);
	else if (!d->pid && d->nr_programs == 0)
		puts("no process could be watched from inside: the loader preloaded nothing");
	print_users(d);
	if (d->pid)
		print_watched(d);
	else
		print_reads(d);
	print_files(d);
	print_mappings(d);
	print_service(d);
	print_prices(d);
	print_gain(d);
	if (d->advice != DOCTOR_NOT_KNOWN && d->advice != DOCTOR_UNSEEN &&
	    doctor_fits_holds(d))
		puts("holds may fit: it maps more of its files than it reads. "
		     "`lodic run --mmap' shares that memory, and so does a program that calls "
		     "lodic_hold().");
	for (unsigned int i = 0; (lack = doctor_host_lacks(i)); i++)
		printf("%s%s\n", i ? "                 " : "this host lacks: ", lack);
}
