// Package firstgc delays the first garbage collection of a process until its heap has 16 MB instead of Go's 4 MB, and switches off the samples
// of allocations.
//
//	import _ "ephor.invalid/ephor/internal/lifecycle/firstgc"   // in a main package; nothing else is needed
//	firstgc.End()                                                     // before other code tunes the collector
//
// The packages that Ephor links allocate 7 MB while they are initialized, nearly all of which stays in use. Two collections during that time
// would find little garbage and cost a quarter of the start. After the first collection, Go's own pace applies, so the
// package does not change how much memory a longer run needs. It does nothing where the environment tunes the collector.
//
// The package imports only small packages of the standard library. Go can therefore initialize it before the large packages.
//
// It does not tune a running process; lifecycle.TuneHeap does that.
//
// Floor 4 (effects): imports nothing of ours.
package firstgc
