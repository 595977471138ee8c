// SPDX-License-Identifier: GPL-2.0
#include "counters.h"
#include "ktap.h"
#include "switches.h"
#include "text.h"

struct vmstat_name {
	const char *name;
	size_t offset;
};

#define VMSTAT_NAME(field) \
	{ \
		"lodic_" #field, offsetof(struct counters, field) \
	}
static const struct vmstat_name vmstat_names[] = {
	VMSTAT_NAME(ref),    VMSTAT_NAME(unref),  VMSTAT_NAME(unref_global),
	VMSTAT_NAME(fold),   VMSTAT_NAME(folded), VMSTAT_NAME(fallback),
	VMSTAT_NAME(lookup),
};

/* One line of /proc/vmstat: "name value". Returns false for a line that is not LODIC's. */
static bool counters_parse(char *line, struct counters *c)
{
	char *value = strchr(line, ' ');
	u32 i;

	if (!value || strncmp(line, "lodic_", 6))
		return false;
	*value++ = 0;
	for (i = 0; i < NR(vmstat_names); i++) {
		if (!strcmp(line, vmstat_names[i].name))
			*(u64 *)((char *)c + vmstat_names[i].offset) =
				strtoull(value, NULL, 10);
	}
	return true;
}

bool counters_read(struct counters *ret_c)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char line[128];
	bool found = false;

	memset(ret_c, 0, sizeof(*ret_c));
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		found |= counters_parse(line, ret_c);
	fclose(f);
	return found;
}

bool counters_present(void)
{
	struct counters c;

	return counters_read(&c);
}

void counters_check_quiet(void)
{
	struct counters c;
	long long added;

	if (!counters_read(&c))
		return;
	if (c.ref != c.unref + c.unref_global)
		ktap_fail(
			"lodic_ref %llu != lodic_unref %llu + lodic_unref_global %llu",
			(unsigned long long)c.ref, (unsigned long long)c.unref,
			(unsigned long long)c.unref_global);
	/* What clears have added to folios, not what they found in the entries. */
	added = text_read_number(DEBUG_ADDED);
	if (added >= 0 && (u64)added != c.folded)
		ktap_fail("%lld references added to folios, lodic_folded %llu", added,
		          (unsigned long long)c.folded);
	if (c.unref_global != c.folded)
		ktap_fail("lodic_unref_global %llu != lodic_folded %llu",
		          (unsigned long long)c.unref_global,
		          (unsigned long long)c.folded);
}

struct counters counters_since(const struct counters *then)
{
	struct counters now;

	counters_read(&now);
	now.ref -= then->ref;
	now.unref -= then->unref;
	now.unref_global -= then->unref_global;
	now.fold -= then->fold;
	now.folded -= then->folded;
	now.fallback -= then->fallback;
	now.lookup -= then->lookup;
	return now;
}

void counters_diag(const char *name, const struct counters *d)
{
	ktap_diag("%s: ref %llu unref %llu unref_global %llu fold %llu folded %llu "
	          "fallback %llu lookup %llu",
	          name, (unsigned long long)d->ref, (unsigned long long)d->unref,
	          (unsigned long long)d->unref_global, (unsigned long long)d->fold,
	          (unsigned long long)d->folded, (unsigned long long)d->fallback,
	          (unsigned long long)d->lookup);
}
