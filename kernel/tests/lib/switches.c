// SPDX-License-Identifier: GPL-2.0
#include "switches.h"
#include "counters.h"
#include "ktap.h"
#include "options.h"
#include "text.h"

static char *switches_line(void)
{
	static char line[1024];
	FILE *f = fopen("/proc/cmdline", "re");

	if (!f || !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	return line;
}

bool switches_word(const char *word)
{
	return strstr(switches_line(), word);
}

const char *switches_scheme(void)
{
	char *at = strstr(switches_line(), "folioref=");

	if (!at)
		return "";
	at += strlen("folioref=");
	at[strcspn(at, " \n")] = 0;
	return at;
}

bool switches_on(void)
{
	const char *scheme = switches_scheme();
	int err;

	if (!counters_present()) {
		ktap_diag("no LODIC: its counters are not looked at");
		return false;
	}
	if (scheme[0] && strcmp(scheme, "lodic")) {
		ktap_diag("folioref=%s: LODIC's counters are not looked at", scheme);
		/* Hybrid counts in entries too, but which references is not known. */
		text_write_number(SYSCTL_MAPPERS, opt.mappers);
		text_write_number(DEBUG_WINDOW, opt.window);
		return false;
	}
	if (text_read_number(SYSCTL_FOLIOREF) != 1) {
		err = text_write_number(SYSCTL_FOLIOREF, 1);
		if (err || text_read_number(SYSCTL_FOLIOREF) != 1) {
			ktap_diag("no LODIC: vm.folioref does not turn on (%s)",
			          strerror(-err));
			return false;
		}
	}
	err = text_write_number(SYSCTL_MAPPERS, opt.mappers);
	if (err)
		ktap_diag("vm.lodic_mappers: %s", strerror(-err));
	err = text_write_number(DEBUG_WINDOW, opt.window);
	if (err && opt.window)
		ktap_diag("windows are not widened: %s", strerror(-err));
	return true;
}

void switches_restore(void)
{
	if (!counters_present())
		return;
	text_write_number(DEBUG_WINDOW, 0);
	text_write_number(SYSCTL_MAPPERS, 4);
}
