// Package golden runs tests whose cases are data: txtar files that hold inputs and the expected output.
//
// `go test ./internal/X -update` writes the actual output into the files.
package golden
