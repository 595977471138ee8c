/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * From all that is known to an advice. It looks at nothing but the struct, so a test can give it
 * any figures (tests/unit/test_doctor.c). An advice needs its evidence:
 *
 *   what the services say of the files   a gain needs files that are cached, now or by a promise
 *   memory                               the forecast is for a cache that has all files
 *   what was seen                        "nothing" is for a program most of which was seen
 *   that it could be measured            no other advice is for times that differ too much
 *   that it ran                          "nothing" is for one that nobody has interrupted
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/advice.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/run.h"
#include "cli/text.h"
#include "lodic/lodic.h"

#define GOOD_GAIN 1.10
/* A promise is worth its risk from so much more gain on. Our choice. */
#define PROMISE_GAIN 1.05
/* A smaller hold is a copy of the process's own. */
#define HOLD_LEAST ((uint64_t)1 << 20)
/* What a read takes at most, and each of its bytes: more than on any machine that we have seen. */
#define MOST_READ_NS 2000.0
#define MOST_BYTE_NS 0.25
#define MOST_SAVED 0.95
/* What the loader reads before a program begins is less. Our choice. */
#define START_BYTES ((uint64_t)64 << 10)
/* A cause of less than this part of what was not seen needs no word. */
#define WORTH_PART 20u

/* ---- memory ---- */

/* What the page cache would hold of the file. Of reads that keep their offset nobody knows where
 * they were, and so they are taken as different ones. */
static uint64_t touched_bytes(const struct doctor_file *f)
{
	uint64_t blocks = f->blocks * SEEN_BLOCK_BYTES;
	uint64_t others = doctor_sum(f->counts.bytes) - f->counts.bytes[RUN_COULD];

	others = others < f->size ? others : f->size;
	return blocks > others ? blocks : others;
}

void doctor_memory_judge(struct doctor *d, struct doctor_gain *g)
{
	struct doctor_memory *m = &d->memory;
	uint64_t cache = d->cache_setting, needed = g->cache_bytes;

	m->touched_bytes = 0;
	for (size_t i = 0; i < d->nr_files; i++)
		m->touched_bytes += touched_bytes(&d->files[i]);
	g->fit = DOCTOR_FITS;
	if (needed == 0)
		return;
	if (m->touched_bytes > m->bytes)
		g->fit = DOCTOR_EXCEEDS;
	else if (needed > cache &&
	         d->counts.in_order_bytes * 2 > d->counts.bytes[RUN_COULD])
		g->fit = DOCTOR_PASSES;
	else if ((needed < cache ? needed : cache) > m->bytes - m->touched_bytes)
		g->fit = DOCTOR_CROWDED;
}

const char *doctor_memory_why(const struct doctor *d, const struct doctor_gain *g)
{
	static char why[DOCTOR_WHY_BYTES];
	const struct doctor_memory *m = &d->memory;
	const char *whose = m->grouped ? "its memory limit is" : "this machine has";
	struct text limit = text_bytes(m->bytes),
		    touched = text_bytes(m->touched_bytes);

	why[0] = '\0';
	if (g->fit == DOCTOR_EXCEEDS)
		snprintf(
			why, sizeof(why),
			"its files take %s and %s %s: a second cache leaves less for each, and "
			"more reads wait for the disk",
			touched.s, whose, limit.s);
	else if (g->fit == DOCTOR_PASSES)
		snprintf(
			why, sizeof(why),
			"it reads %s in order and the cache has %s: each pass pushes out "
			"what the next one wants first",
			text_bytes(g->cache_bytes).s, text_bytes(d->cache_setting).s);
	else if (g->fit == DOCTOR_CROWDED)
		snprintf(
			why, sizeof(why),
			"its files take %s in the page cache and the cache has them a second "
			"time, and %s %s: reads may wait for the disk",
			touched.s, whose, limit.s);
	return why;
}

/* ---- what was seen ---- */

bool doctor_fits_holds(const struct doctor *d)
{
	return d->maps.resident_bytes >= HOLD_LEAST &&
	       d->maps.resident_bytes > d->io.read_bytes;
}

/* Bytes of reads that `lodic run' could serve, of files that no service was asked about. */
static uint64_t unjudged_bytes(const struct doctor *d)
{
	uint64_t judged = 0, all = d->counts.bytes[RUN_COULD];

	for (size_t i = 0; i < d->nr_files; i++)
		if (d->files[i].asked)
			judged += d->files[i].counts.bytes[RUN_COULD];
	return all > judged ? all - judged : 0;
}

static uint64_t beyond(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static void unseen_judge(struct doctor *d)
{
	struct doctor_unseen *u = &d->unseen;
	uint64_t seen = doctor_sum(d->counts.bytes),
		 reads = doctor_sum(d->counts.reads);
	uint64_t bytes;
	double saved;

	*u = (struct doctor_unseen){ .rings = d->maps.rings || d->marks & SEEN_RING,
		                     .go = d->marks & SEEN_GO,
		                     .unknown = !d->io.known };
	/* By /proc nobody sees how a watched process reads, and the forecast is for any way. */
	if (!d->pid) {
		u->past = beyond(d->io.read_bytes, seen);
		u->past_reads = beyond(d->io.reads, reads);
		u->unjudged = unjudged_bytes(d);
	}
	if (d->maps.resident_bytes >= HOLD_LEAST)
		u->mapped = d->maps.resident_bytes;
	/* Of these both may be: what comes into a mapping comes from a device. */
	u->device = beyond(d->io.device_bytes, d->io.read_bytes + u->mapped);
	u->all = (d->io.read_bytes > seen ? d->io.read_bytes : seen) + u->mapped +
	         u->device;
	bytes = u->past + u->mapped + u->device + u->unjudged;
	saved = ((double)u->past_reads + (double)(bytes - u->past) / SEEN_BLOCK_BYTES) *
	                MOST_READ_NS +
	        (double)bytes * MOST_BYTE_NS;
	u->most_gain = 1 / (1 - fmin(MOST_SAVED, saved / fmax(1, (double)d->cpu_ns)));
	u->decides = u->rings || (u->unknown && !d->pid) ||
	             (2 * bytes > u->all && u->most_gain >= DOCTOR_LEAST_GAIN &&
	              bytes > START_BYTES * (d->nr_programs ? d->nr_programs : 1));
}

/* ---- the advice ---- */

const char *doctor_advice_name(enum doctor_advice advice)
{
	static const char *const names[] = { "nothing", "little", "run",      "perhaps",
		                             "promise", "unseen", "not known" };

	return names[advice];
}

static enum doctor_advice because(struct doctor *d, enum doctor_advice advice,
                                  const char *why)
{
	snprintf(d->why, sizeof(d->why), "%s", why);
	return advice;
}

/* Of one forecast alone. */
static enum doctor_advice of_gain(const struct doctor *d, const struct doctor_gain *g)
{
	if (g->fit >= DOCTOR_EXCEEDS && !d->pid)
		return DOCTOR_NOTHING;
	return g->expected < DOCTOR_LEAST_GAIN ? DOCTOR_NOTHING
	       : g->expected < GOOD_GAIN       ? DOCTOR_LITTLE
	                                       : DOCTOR_RUN;
}

/* The rounds themselves lie further apart than any range that is printed, and not all of them on
 * one side. */
static bool is_unsteady(const struct doctor_gain *g)
{
	return g->rounds_low < DOCTOR_LEAST_GAIN &&
	       g->rounds_high >= DOCTOR_LEAST_GAIN &&
	       g->rounds_high > g->rounds_low * DOCTOR_WIDEST;
}

static const char *unsteady_why(const struct doctor_gain *g)
{
	static char why[DOCTOR_WHY_BYTES];

	snprintf(
		why, sizeof(why),
		"the times measured here differ too much, from a gain of %.2f to one of "
		"%.2f; run the doctor again when the machine is less busy",
		g->rounds_low, g->rounds_high);
	return why;
}

static enum doctor_advice nothing(struct doctor *d)
{
	char why[DOCTOR_WHY_BYTES];
	const struct doctor_unseen *u = &d->unseen;

	if (u->decides && !(u->unknown && !d->pid)) {
		snprintf(why, sizeof(why), "%sof the %s that it used, %s %% were seen",
		         u->rings ? "what came by io_uring no count shows, and " : "",
		         text_bytes(u->all).s,
		         text_percent(u->all - (u->past + u->mapped + u->device +
		                                u->unjudged),
		                      u->all)
		                 .s);
		return because(d, DOCTOR_UNSEEN, why);
	}
	if (d->interrupted)
		return because(
			d, DOCTOR_NOT_KNOWN,
			"it was interrupted, and until then lodic would have gained "
			"too little");
	if (u->unknown && !d->pid)
		return because(d, DOCTOR_UNSEEN,
		               "nobody knows what it read past the shim, because the "
		               "kernel's count (/proc/PID/io) could not be read");
	if (d->gain.expected >= DOCTOR_LEAST_GAIN)
		return because(d, DOCTOR_NOTHING, doctor_memory_why(d, &d->gain));
	return DOCTOR_NOTHING;
}

static enum doctor_advice choose(struct doctor *d)
{
	const struct doctor_gain *g = &d->gain, *p = &d->promised_gain;
	enum doctor_advice now = of_gain(d, g), promised = of_gain(d, p);

	d->why[0] = '\0';
	if (!d->price.known && (d->pid || d->counts.reads[RUN_COULD]))
		return because(d, DOCTOR_NOT_KNOWN, d->price.why);
	if (is_unsteady(g) || is_unsteady(p))
		return because(d, DOCTOR_NOT_KNOWN,
		               unsteady_why(is_unsteady(g) ? g : p));
	if (d->pid && d->nr_others && g->high >= DOCTOR_LEAST_GAIN)
		return because(
			d, DOCTOR_PERHAPS,
			"that gain holds only if the rest is pread; start it once "
			"under `lodic doctor -- PROGRAM'");
	if (promised != DOCTOR_NOTHING && p->expected >= g->expected * PROMISE_GAIN)
		return DOCTOR_PROMISE;
	if (now == DOCTOR_NOTHING)
		return nothing(d);
	if (2 * d->unseen.unjudged > doctor_covered_bytes(d))
		return because(d, DOCTOR_PERHAPS,
		               "that gain is for files that no service could be asked "
		               "about, because they had gone or were too many");
	return now;
}

/* ---- what to do ---- */

__attribute__((format(printf, 2, 3))) static void step(struct doctor *d,
                                                       const char *format, ...)
{
	va_list args;

	if (d->nr_steps == DOCTOR_STEPS)
		return;
	va_start(args, format);
	vsnprintf(d->steps[d->nr_steps], DOCTOR_STEP_BYTES, format, args);
	va_end(args);
	d->nr_steps++;
}

/* Adds a word as a shell takes it. false: it has no room, and text is as it was. */
static bool add_word(char *text, size_t size, const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_@%+=:,./-";
	size_t n = strlen(text), had = n;
	bool quoted = !*word || word[strspn(word, plain)];

	if (n + strlen(word) * 4 + 4 > size)
		return false;
	text[n++] = ' ';
	if (quoted)
		text[n++] = '\'';
	for (; *word; word++) {
		if (*word == '\n') { /* no line to paste */
			text[had] = '\0';
			return false;
		}
		n += (size_t)sprintf(text + n, "%s",
		                     *word == '\'' ? "'\\''" : (char[2]){ *word });
	}
	if (quoted)
		text[n++] = '\'';
	text[n] = '\0';
	return true;
}

/* options: with a blank in front, or "". */
static void step_run(struct doctor *d, const char *options)
{
	char text[DOCTOR_STEP_BYTES];
	char **word = d->command;

	snprintf(text, sizeof(text), "lodic run%s --", options);
	while (word && *word && add_word(text, sizeof(text), *word))
		word++;
	if (!word || *word)
		snprintf(text, sizeof(text), "lodic run%s -- PROGRAM...", options);
	step(d, "%s", text);
}

/* Where the cache is too small, and memory has room for a larger one. */
static void steps_run(struct doctor *d, const struct doctor_gain *g)
{
	unsigned long long mib = ((g->cache_bytes + g->cache_bytes / 4) >> 20) + 1;
	char options[64] = "";

	if (g->fit <= DOCTOR_CROWDED && (g->cache_bytes > d->cache_setting ||
	                                 d->memory.bytes <= d->cache_setting)) {
		if (d->service.found && !d->service.error)
			step(d, "lodic resize %lluM", mib);
		else
			snprintf(options, sizeof(options), " --memory %lluM", mib);
	}
	step_run(d, options);
}

/* A service reads its promises when it starts. Its successor takes over what it has cached. */
static void step_anew(struct doctor *d)
{
	const struct doctor_service *s = &d->service;
	unsigned long long mib = s->memory_limit >> 20;
	char text[DOCTOR_STEP_BYTES];

	if (*s->unit) {
		step(d, "systemctl%s reload %s", s->unit_of_user ? " --user" : "",
		     s->unit);
		return;
	}
	snprintf(text, sizeof(text), "lodic serve --replace --daemon --memory %lluM",
	         mib ? mib : 1);
	for (unsigned int i = d->promise.nr_old; s->by_option && i < d->promise.nr; i++)
		if (add_word(text, sizeof(text), "--immutable"))
			add_word(text, sizeof(text), d->promise.globs[i]);
	step(d, "%s%s", text,
	     s->by_option
	             ? "  # and the --immutable that it has: options win over files"
	             : "");
}

static void steps_promise(struct doctor *d)
{
	const struct doctor_promise *p = &d->promise;
	const struct doctor_service *s = &d->service;

	for (unsigned int i = 0; i < p->nr; i++)
		step(d, "in %s: immutable = %s", p->file, p->globs[i]);
	if (s->found && !s->error)
		step_anew(d);
	steps_run(d, &d->promised_gain);
}

static void steps_unseen(struct doctor *d)
{
	const struct doctor_unseen *u = &d->unseen;
	uint64_t least =
		(u->past + u->mapped + u->device + u->unjudged) / WORTH_PART + 1;

	if (u->rings)
		step(d,
		     "it has an io_uring, which no count shows: let it read by pread, if it "
		     "can, and ask again");
	if (u->go)
		step(d,
		     "a program in Go calls the kernel past libc: read by lodic_read() of "
		     "liblodic there (doc/use/own.md)");
	if (u->past >= least && !u->go)
		step(d,
		     "%s came past the shim: by sendfile (turn it off), by stdio or in a "
		     "program that is linked statically (read by lodic_read(), "
		     "doc/use/own.md), or in a container that has a /dev/shm of its own "
		     "(run the doctor inside)",
		     text_bytes(u->past).s);
	if (u->mapped >= least) {
		step(d,
		     "%s of mapped files were in memory: `lodic run --mmap' shares such "
		     "mappings",
		     text_bytes(u->mapped).s);
		step_run(d, " --mmap");
	}
	if (u->device >= least && !u->rings)
		step(d,
		     "%s more came from devices than by calls that read: let it read by "
		     "pread",
		     text_bytes(u->device).s);
	if (u->unjudged >= least)
		step(d,
		     "%s are of files that had gone, or were too many to ask about: run the "
		     "doctor where they stay",
		     text_bytes(u->unjudged).s);
}

void doctor_advise(struct doctor *d)
{
	unseen_judge(d);
	d->nr_steps = 0;
	d->advice = choose(d);
	switch (d->advice) {
	case DOCTOR_RUN:
	case DOCTOR_LITTLE: steps_run(d, &d->gain); break;
	case DOCTOR_PROMISE: steps_promise(d); break;
	case DOCTOR_UNSEEN: steps_unseen(d); break;
	case DOCTOR_NOTHING:
	case DOCTOR_PERHAPS:
	case DOCTOR_NOT_KNOWN: break;
	}
}
