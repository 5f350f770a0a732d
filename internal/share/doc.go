// Package share bounds the processor time that namespaced policies take in a process that answers requests, each namespace
// for itself.
//
//	shares := share.New(runtime.GOMAXPROCS(0))
//	pacer := shares.Pacer("team-a", true)     // a budget.Pacer for one policy and request
//
// A namespace has an account of steps (budget.Meter) that fills at a fixed rate: a twentieth of the processors, and less when
// so many namespaces are busy that all together would pass a fifth. Work is charged to the account as it is done, in
// portions of some 0.2 ms. A namespace in debt waits until its debt is paid; policies of other namespaces and of the cluster
// are never charged and never wait. What would have to wait for too long is an error, which wraps budget.ErrExhausted.
//
// The package does not measure time spent; it trusts what the meter counts. It does not decide who is paced: admission does.
//
// Floor 4: imports budget.
package share
