/* Where the Arduino IDE looks for the header of a library; everything else takes it from include/. */
#include "../include/nilometer_edge_sync.h"
