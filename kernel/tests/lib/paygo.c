// SPDX-License-Identifier: GPL-2.0
#include "paygo.h"
#include "ktap.h"
#include "switches.h"
#include "text.h"

#define PAYGO_AT_ONCE "/sys/kernel/debug/paygo/at_once"
#define PAYGO_DRAIN "/sys/kernel/debug/paygo/drain"
#define PAYGO_DISABLE "/sys/kernel/debug/paygo/disable"

struct paygo_name {
	const char *name;
	size_t offset;
};

#define PAYGO_NAME(field) \
	{ \
		"paygo_" #field, offsetof(struct paygo, field) \
	}
static const struct paygo_name paygo_names[] = {
	PAYGO_NAME(hit),    PAYGO_NAME(install),      PAYGO_NAME(unref),
	PAYGO_NAME(away),   PAYGO_NAME(unref_global), PAYGO_NAME(fold),
	PAYGO_NAME(folded), PAYGO_NAME(full),         PAYGO_NAME(held_bytes),
};

static u64 *paygo_field(struct paygo *p, u32 i)
{
	return (u64 *)((char *)p + paygo_names[i].offset);
}

void paygo_read(struct paygo *ret_p)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char name[64];
	unsigned long long value;
	u32 i;

	memset(ret_p, 0, sizeof(*ret_p));
	if (!f)
		ktap_bail("/proc/vmstat");
	while (fscanf(f, "%63s %llu", name, &value) == 2) {
		for (i = 0; i < NR(paygo_names); i++) {
			if (!strcmp(name, paygo_names[i].name))
				*paygo_field(ret_p, i) = value;
		}
	}
	fclose(f);
}

static bool paygo_was_at_once;

bool paygo_on(void)
{
	FILE *f = fopen(PAYGO_AT_ONCE, "re");

	if (!f)
		return false;
	paygo_was_at_once = fgetc(f) == 'Y';
	fclose(f);
	if (switches_word("paygo_at_once") && !paygo_was_at_once)
		ktap_fail("the kernel did not understand paygo_at_once");
	return !strcmp(switches_scheme(), "paygo") ||
	       !strcmp(switches_scheme(), "hybrid");
}

struct paygo paygo_since(const struct paygo *then)
{
	struct paygo now, from = *then;
	u32 i;

	paygo_read(&now);
	from.held_bytes = 0;
	for (i = 0; i < NR(paygo_names); i++)
		*paygo_field(&now, i) -= *paygo_field(&from, i);
	return now;
}

void paygo_diag(const char *name, const struct paygo *p)
{
	char text[300] = "";
	size_t at = 0;
	u32 i;

	for (i = 0; i < NR(paygo_names); i++)
		at += snprintf(text + at, sizeof(text) - at, " %s %llu",
		               paygo_names[i].name + strlen("paygo_"),
		               (unsigned long long)*paygo_field((struct paygo *)p, i));
	ktap_diag("%s:%s", name, text);
}

void paygo_check_quiet(void)
{
	struct paygo p;

	paygo_read(&p);
	if (p.hit + p.install != p.unref + p.away)
		ktap_fail("hit %llu + install %llu != unref %llu + away %llu",
		          (unsigned long long)p.hit, (unsigned long long)p.install,
		          (unsigned long long)p.unref, (unsigned long long)p.away);
	if (p.unref_global != p.folded)
		ktap_fail("unref_global %llu != folded %llu",
		          (unsigned long long)p.unref_global,
		          (unsigned long long)p.folded);
}

static void paygo_switch(const char *path, u64 value)
{
	int err = text_write_number(path, value);

	if (err)
		ktap_fail("%s: %s", path, strerror(-err));
}

void paygo_drain(void)
{
	paygo_switch(PAYGO_DRAIN, 1);
}

void paygo_at_once(bool at_once)
{
	paygo_switch(PAYGO_AT_ONCE, at_once);
}

void paygo_at_once_restore(void)
{
	paygo_at_once(paygo_was_at_once);
}

void paygo_disable(bool disable)
{
	paygo_switch(PAYGO_DISABLE, disable);
}
