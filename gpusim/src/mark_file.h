/* Marks as files: what a busy process writes. */
#ifndef GPUSIM_MARK_FILE_H
#define GPUSIM_MARK_FILE_H

#include "mark.h"

enum { MARK_NAME_SIZE = 64 };
#define MARK_MAGIC 0x315955424d495347ull /* "GSIMBUY1" */
#define MARK_FOLDER "busy"

/* Copy a mark that may be written at this moment; 0 when there is no whole one. */
int mark_load(const char *path, struct mark *mark);

/* Remove marks of processes that are long dead and add their totals to the file `retired-GPU`. */
void marks_retire(unsigned gpu);

/* Total of the marks that were removed: busy ns times share. */
double marks_retired_ns(unsigned gpu);

#endif
