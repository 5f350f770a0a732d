// Package lifecycle has what a long-running process needs beside its controllers (package controller): Probes for the kubelet, the
// Reachability of the API server, Profiles for developers, and bounds of the heap, whose free memory it returns to the operating system.
//
//	probes, err := lifecycle.ListenProbes(host, port, ready, log)
//	go lifecycle.ReturnMemory(ctx)
//
// The package knows no controller: package app has them.
//
// Floor 4: imports http1.
package lifecycle
