/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A reader of tracefs' text: sim/tier/kernel_trace.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tier/kernel_trace.h"

static const char *const event_names[] = {
	[KERNEL_RULES] = ": kloc_rules: ",
	[KERNEL_INPUT] = ": kloc_input: ",
	[KERNEL_DECISION] = ": kloc_decision: ",
};

static const char *const input_names[] = {
	[INPUT_NEW] = "new",       [INPUT_OPEN] = "open",   [INPUT_CLOSE] = "close",
	[INPUT_USE] = "use",       [INPUT_MOVED] = "moved", [INPUT_TICK] = "tick",
	[INPUT_UNLINK] = "unlink", [INPUT_END] = "end",
};

static const char *const decision_names[] = {
	[DECISION_ACTIVATE] = "activate", [DECISION_DEACTIVATE] = "deactivate",
	[DECISION_DEMOTE] = "demote",     [DECISION_PROMOTE] = "promote",
	[DECISION_PLACE] = "place",       [DECISION_KEEP] = "keep",
	[DECISION_RETAIN] = "retain",     [DECISION_FORGIVE] = "forgive",
	[DECISION_END] = "end",
};

const char *kernel_decision_name(enum kernel_decision what)
{
	return decision_names[what];
}

int kernel_trace_wrong(const struct kernel_trace *t, const char *why)
{
	fprintf(stderr, "lodic-sim: %s: line %" PRIu64 ": %s\n", t->path, t->line, why);
	return -EINVAL;
}

static int missing(const struct kernel_trace *t, const char *name)
{
	fprintf(stderr, "lodic-sim: %s: line %" PRIu64 ": no %s=, or not one we know\n",
	        t->path, t->line, name);
	return -EINVAL;
}

/* What stands behind ' name=', up to the next blank; NULL: nothing. */
static const char *field(const struct kernel_trace *t, const char *name,
                         size_t *ret_length)
{
	const char *at = t->said;
	size_t length = strlen(name);

	while ((at = strchr(at, ' ')) != NULL) {
		at++;
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			at += length + 1;
			*ret_length = strcspn(at, " ");
			return *ret_length ? at : NULL;
		}
	}
	return NULL;
}

static int number(const struct kernel_trace *t, const char *name, u64 most,
                  u64 *ret_number)
{
	size_t length;
	const char *at = field(t, name, &length);
	char *end;

	if (!at || *at < '0' || *at > '9')
		return missing(t, name);
	errno = 0;
	*ret_number = strtoull(at, &end, 10);
	if (errno || end != at + length || *ret_number > most)
		return missing(t, name);
	return 0;
}

static int number32(const struct kernel_trace *t, const char *name, u32 *ret_number)
{
	u64 n;
	int err = number(t, name, UINT32_MAX, &n);

	if (!err)
		*ret_number = (u32)n;
	return err;
}

/* Which of the names stands there. */
static int word(const struct kernel_trace *t, const char *name,
                const char *const *names, u32 nr, u32 *ret_which)
{
	size_t length;
	const char *at = field(t, name, &length);
	u32 i;

	for (i = 0; at && i < nr; i++)
		if (strlen(names[i]) == length && strncmp(at, names[i], length) == 0) {
			*ret_which = i;
			return 0;
		}
	return missing(t, name);
}

static int parse_rules(struct kernel_trace *t)
{
	size_t length;
	const char *policy = field(t, "policy", &length);
	enum kloc_policy_id id;
	u64 promote, ping_pong, on;

	if (!policy || length >= sizeof(t->policy))
		return missing(t, "policy");
	memcpy(t->policy, policy, length);
	t->policy[length] = '\0';
	id = kloc_policy_named(t->policy);
	if (id == KLOC_NR_POLICIES)
		return missing(t, "policy");
	if (number(t, "on", 1, &on) || number(t, "promote", 1, &promote) ||
	    number(t, "ping_pong", 255, &ping_pong) ||
	    number32(t, "age_limit", &t->rules.age_limit) ||
	    number32(t, "forgive", &t->rules.forgive))
		return -EINVAL;
	t->rules.ping_pong = (u32)ping_pong;
	t->rules.promote_whole = promote;
	t->rules.eager = true; /* a kernel knows no other way */
	/* While it is off, states change and nothing moves. */
	t->rules.mover = (u8)(on ? kloc_policy_mover(id) : MOVER_NONE);
	return 0;
}

static int parse_why(struct kernel_trace *t)
{
	const char *names[KLOC_NR_WHYS];
	u32 i;

	for (i = 0; i < KLOC_NR_WHYS; i++)
		names[i] = kloc_why_name((enum kloc_why)i);
	if (word(t, "why", names, KLOC_NR_WHYS, &i))
		return -EINVAL;
	t->why = (enum kloc_why)i;
	return 0;
}

static int parse(struct kernel_trace *t)
{
	if (number32(t, "now", &t->now))
		return -EINVAL;
	if (t->event == KERNEL_RULES)
		return parse_rules(t);
	if (number32(t, "knode", &t->knode))
		return -EINVAL;
	if (t->event == KERNEL_INPUT)
		return word(t, "input", input_names, NR_INPUTS, &t->what) ||
		                       number(t, "n", UINT64_MAX, &t->n)
		               ? -EINVAL
		               : 0;
	return word(t, "what", decision_names, NR_DECISIONS, &t->what) ||
	                       parse_why(t) ||
	                       number(t, "fast", UINT64_MAX, &t->fast) ||
	                       number(t, "slow", UINT64_MAX, &t->slow)
	               ? -EINVAL
	               : 0;
}

int kernel_trace_next(struct kernel_trace *t)
{
	u32 event;

	while (fgets(t->text, sizeof(t->text), t->f)) {
		t->line++;
		if (*t->text == '#')
			continue;
		if (strstr(t->text, " [LOST "))
			return kernel_trace_wrong(
				t, "events were lost: make tracefs' buffer_size_kb "
				   "larger, and record again");
		for (event = 0; event < KERNEL_NR_EVENTS; event++) {
			t->said = strstr(t->text, event_names[event]);
			if (t->said)
				break;
		}
		if (event < KERNEL_NR_EVENTS) {
			if (!strchr(t->text, '\n'))
				return kernel_trace_wrong(t, "cut off, or too long");
			t->text[strcspn(t->text, "\n")] = '\0';
			t->said += 2;
			t->event = (enum kernel_event)event;
			return parse(t) ? -EINVAL : 1;
		}
		/* A long line of somebody else's event. */
		while (!strchr(t->text, '\n') && fgets(t->text, sizeof(t->text), t->f))
			;
	}
	return ferror(t->f) ? kernel_trace_wrong(t, "cannot be read") : 0;
}

int kernel_trace_open(const char *path, struct kernel_trace *ret_trace)
{
	struct kernel_trace t = { .path = strdup(path) };
	int err;

	if (!t.path)
		return -ENOMEM;
	t.f = fopen(path, "r");
	if (!t.f) {
		err = -errno;
		fprintf(stderr, "lodic-sim: %s: %s\n", path, strerror(errno));
		free(t.path);
		return err;
	}
	*ret_trace = t;
	return 0;
}

void kernel_trace_close(struct kernel_trace *t)
{
	fclose(t->f);
	free(t->path);
}
