// Package listwatch has what each loop that lists and watches objects needs beside its client: lists that outlive their continue token, and
// pauses that grow until a watch has lasted.
//
//	pause := listwatch.Pause{First: time.Second, Longest: time.Minute}
//	for ctx.Err() == nil {
//	    began := time.Now()
//	    err := watch(ctx)              // ends with or without an error
//	    pause.After(ctx, began, err)   // waits, unless the watch has lasted and ended without an error
//	}
//
// Floor 4: imports the API machinery only.
package listwatch
