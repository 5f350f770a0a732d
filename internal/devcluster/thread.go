package devcluster

import "runtime"

// lockThread binds the goroutine to its thread and never unbinds it: the thread ends with the goroutine.
func lockThread() { runtime.LockOSThread() }
