// Package share bounds the processor time that the namespaced policies of each namespace take in a process that answers requests.
//
//	shares := share.New(runtime.GOMAXPROCS(0))
//	pacer := shares.Pacer("team-a", true)     // a budget.Pacer for one policy and request
//
// A namespace has an account of steps (budget.Meter) that fills at a fixed rate: a twentieth of the processors, or less when so many
// namespaces are busy that together they would exceed a fifth. Work is charged to the account as it is done, in portions of about 0.2 ms.
// A namespace in debt waits until its debt is paid; policies of other namespaces and cluster-wide policies are never charged and never
// wait. A wait that would be too long is an error, which wraps budget.ErrExhausted.
//
// The package does not measure time; it relies on the counts of the meter. It does not decide which policies are paced: admission does.
//
// Floor 4: imports budget.
package share
