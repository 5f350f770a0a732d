// Package golden runs tests whose cases are data: txtar files that hold inputs and the text that is wanted of them.
//
// `go test ./internal/X -update` writes what the tests find into the files.
package golden
