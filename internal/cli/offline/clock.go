package offline

import "time"

// Now is the clock by which apply and test evaluate, that of the machine. Tests that hold results against a recording
// set it to the time of the recording, since some policies look at the hour.
var Now = time.Now
