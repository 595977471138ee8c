/* SPDX-License-Identifier: GPL-2.0 */
/* What most test programs need; races and held readers have headers of their own. */
#ifndef LODIC_TESTS_TEST_H
#define LODIC_TESTS_TEST_H

#include "clock.h"
#include "counters.h"
#include "cpu.h"
#include "data.h"
#include "file.h"
#include "fs.h"
#include "klog.h"
#include "ktap.h"
#include "options.h"
#include "random.h"
#include "switches.h"
#include "text.h"
#include "waiter.h"

#endif
