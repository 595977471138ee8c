/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A wait for what was asked for before. */
#ifndef LODIC_LIB_SERVICE_FRAME_SYNC_H
#define LODIC_LIB_SERVICE_FRAME_SYNC_H

#include "host/host.h"

/* Somebody waits until what was asked for before is done. */
struct fill_sync {
	u64 round;  /* in which all hints of before are taken; 0: they are */
	u64 ticket; /* of the newest of them */
};

#endif
