/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What an error of this library means, and what its user can do; which version it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>

#include "lib/client/client.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const struct error_text {
	int error;
	const char *text;
} error_texts[] = {
	{ EAGAIN,
	  "the block is not cached yet: use lodic_read(), or prefetch it; or the hold is not "
	  "ready, or must wait for others: ask again later" },
	{ ESTALE,
	  "the file is not cached, or the service is away: lodic_file_cached() says more" },
	{ EDQUOT,
	  "this context may not pin, because earlier ones may pin as much as the cache can "
	  "bear: use lodic_read(), or a larger cache" },
	{ ENOBUFS,
	  "too many pinned blocks share one place of this context's table: unpin one, "
	  "or use lodic_read()" },
	{ EOVERFLOW, "this context holds 127 pins on the block: unpin one" },
	{ EUSERS, "the service has as many contexts as it can hold: close one" },
	{ ENODATA, "the file is empty, or it ends before the offset" },
	{ ETXTBSY, "somebody has the file open for writing" },
	{ EALREADY,
	  "somebody has written to the file lately: the service waits for a pause before it "
	  "caches it again (--lease-pause); `lodic files` says how long" },
	{ EMEDIUMTYPE,
	  "the file lies in tmpfs, which is memory already; a promise for its path "
	  "(--immutable) has it cached all the same" },
	{ ENOLCK,
	  "the kernel grants the service no further inotify watch, by which it hears of "
	  "changes: raise fs.inotify.max_user_watches" },
	{ EOPNOTSUPP,
	  "the file's file system has no dependable leases; or there can be no hold, because "
	  "there is no /proc, or the kernel has no leases" },
	{ EFBIG,
	  "the file has 16 TiB or more; or the range is larger than all holds may be: hold "
	  "less, or start the service with more (--holds)" },
	{ ENOSPC,
	  "what programs hold leaves no room: release a hold, or start the service with more "
	  "(--holds)" },
	{ ENFILE,
	  "the service holds as many files as it can: start it with more (--files), or with a "
	  "higher limit on descriptors (ulimit -n)" },
	{ EBUSY, "the service waits for other files whose file systems do not answer" },
	{ EACCES,
	  "nothing proves that the file does not change; or the folder of the socket "
	  "is not yours alone" },
	{ EINVAL,
	  "an argument, LODIC_SOCKET, LODIC_MEMORY or a configuration file is not valid: "
	  "`lodic stat` names such a file" },
	{ EPERM, "the service is another user's, or this program is privileged" },
	{ EPROTO,
	  "the service is of another version: stop it, and it will be started anew" },
	{ ETIMEDOUT, "the service does not answer; is it stopped?" },
	{ ECONNRESET, "the service has died meanwhile" },
	{ ECONNREFUSED, "no service listens at the socket" },
	{ ENOENT, "no service listens, and there is no `lodic` to start" },
	{ ECHILD,
	  "this process is a forked child: it must call lodic_attach() itself" },
};

EXPORT const char *lodic_strerror(int error)
{
	const char *text;

	if (error < 0 && error != INT_MIN)
		error = -error;
	for (size_t i = 0; i < sizeof(error_texts) / sizeof(*error_texts); i++)
		if (error_texts[i].error == error)
			return error_texts[i].text;
	text = strerrordesc_np(error);
	return text ? text : "unknown error";
}

EXPORT const char *lodic_version(void)
{
	/* tools/tidy.py compares these with the build's version. */
	return TEXT(LODIC_VERSION_MAJOR) "." TEXT(LODIC_VERSION_MINOR) "." TEXT(
		LODIC_VERSION_PATCH);
}
