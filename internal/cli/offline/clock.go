package offline

import "time"

// Now is the clock with which apply and test evaluate policies; by default it is the system clock. Tests that compare
// results with a recording set it to the time of the recording, since some policies read the time.
var Now = time.Now
