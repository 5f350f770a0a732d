// Package budget meters evaluations: it counts the steps and the bytes of data produced for each rule, for each policy and request, and for
// each request.
//
//	m := budget.New(ctx, budget.DefaultSteps, budget.DefaultBytes)
//	for _, e := range elements {
//		if err := m.Step(1); err != nil {
//			return err
//		}
//	}
//
// Go can neither stop a goroutine nor limit its memory from outside, so every loop of the language packages counts its own work: the meter
// checks the context every 1,024 steps and returns an error when a limit is exceeded. It does not measure time (the context's deadline
// does) and does not decide what an exhausted budget means (engine does).
//
// An Account is the budget of one policy for one request, a part of the Request budget of all policies. A Meter is charged to it rule by
// rule (Charge, Settle), so that counting costs the same with and without it. A Pacer, which the engine's caller may provide, spreads the
// work of an account over time.
//
// Floor 0 (leaf): imports value.
package budget
