/* Sends what the server has not got; ends with NE_END, or with what ne_sync_step() says. Call it from the task of the store. */
#include "nilometer_edge_sync.h"

ne_status upload(ne_store *store, const ne_sync_options *options);
