/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program that seems to be a service, and programs that believe it. */
#ifndef LODIC_CHECK_WHOLE_FAKE_H
#define LODIC_CHECK_WHOLE_FAKE_H

void fake_start(void);

#endif
